// Tells screen readers of an answer: in whole sentences, every few seconds.
const EVERY_MS = 4000;
const SIGNS = ["\n", ". ", "! ", "? ", "。"]; // that end what is read out
const MAX_LENGTH = 600; // characters of one announcement

/** Split off what can be read out: up to the last end of a sentence or a line. */
export function readable(text) {
  const ends = SIGNS.map((sign) =>
    text.includes(sign) ? text.lastIndexOf(sign) + sign.length : 0,
  );
  const end = Math.max(...ends);
  return [text.slice(0, end), text.slice(end)];
}

export class Announcer {
  #rest = "";
  #last = 0;

  constructor(region) {
    this.region = region;
  }

  begin() {
    this.#rest = "";
    this.#last = performance.now();
  }

  add(text) {
    this.#rest += text;
    if (performance.now() - this.#last < EVERY_MS) return;
    const [ready, rest] = readable(this.#rest);
    if (!ready) return;
    this.#rest = rest;
    this.say(ready);
  }

  end(words) {
    this.say(`${this.#rest} ${words}`);
    this.#rest = "";
  }

  say(text) {
    this.#last = performance.now();
    this.region.textContent = text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)} …` : text;
  }
}
