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

/** A plain text that grows, as runs with a class and a number each. */
export class GrowingText {
  #piece = null;
  #length = 0;

  constructor(element) {
    this.element = element;
  }

  /** Add a text; `wrap` makes the element that holds its nodes, none by default. */
  add(text, wrap = null) {
    for (const line of text.split(/(?<=\n)/)) for (const cut of cuts(line)) this.#add(cut, wrap);
  }

  #add(text, wrap) {
    if (!this.#piece || this.#length + text.length > CUT) this.#begin();
    const ends = text.endsWith("\n") && this.#length + text.length > ENOUGH;
    const nodes = shown(ends ? text.slice(0, -1) : text);
    this.#piece.append(...(wrap ? [wrap(nodes)] : nodes));
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
