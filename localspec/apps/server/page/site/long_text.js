// Long texts in pieces that a browser lays out one by one.
import { el, shown } from "./dom.js";

const CUT = 4000; // characters without an end of line that are laid out together
const ENOUGH = 800; // characters after which a piece ends with its line

/** Cut a line into pieces, none between the halves of a character. */
export function cuts(line) {
  if (line.length <= CUT) return [line];
  const pieces = [];
  for (let at = 0; at < line.length;) {
    let end = Math.min(at + CUT, line.length);
    if (isHalf(line, end)) end -= 1;
    pieces.push(line.slice(at, end));
    at = end;
  }
  return pieces;
}

function isHalf(line, at) {
  const code = line.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff && at < line.length;
}

/** A plain text that grows. */
export class GrowingText {
  #piece = null;
  #length = 0;

  constructor(element) {
    this.element = element;
  }

  /** Add a text; `write` makes the nodes of a part of it, which begins at a place. */
  add(text, write = shown) {
    let at = 0;
    for (const part of text.split(/(?<=\n)/).flatMap(cuts)) {
      this.#add(part, at, write);
      at += part.length;
    }
  }

  #add(text, at, write) {
    if (!this.#piece || this.#length + text.length > CUT) this.#begin();
    const ends = text.endsWith("\n") && this.#length + text.length > ENOUGH;
    this.#piece.append(...write(ends ? text.slice(0, -1) : text, at));
    this.#length += text.length;
    if (ends) this.#end();
  }

  /** End a piece; from now on it costs nothing off the screen. */
  #end() {
    this.#piece?.classList.add("whole");
    this.#piece = null;
  }

  #begin() {
    this.#end();
    this.#piece = this.element.appendChild(el("div", { class: "piece" }));
    this.#length = 0;
  }
}
