// When to draw what grows: once a frame at most, and for a small share of the time.
const SHARE = 0.15; // of all time that drawing may take
const OFTEN_MS = 33; // between two drawings, at least
const LATEST_MS = 1000; // between two drawings, at most

/** The milliseconds from the beginning of a drawing that took `cost` to the next one. */
export function pause(cost) {
  return Math.min(Math.max(OFTEN_MS, cost / SHARE), LATEST_MS);
}

export class Painter {
  #due = 0;
  #waits = false;

  constructor(draw) {
    this.draw = draw;
  }

  want() {
    if (this.#waits) return;
    this.#waits = true;
    setTimeout(() => requestAnimationFrame(() => this.#paint()), this.#due - performance.now());
  }

  #paint() {
    const begun = performance.now();
    this.#waits = false;
    this.draw();
    this.#due = begun + pause(performance.now() - begun);
  }
}
