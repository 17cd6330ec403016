// What writes the texts of an answer: plain, or with the lens, each token in a span of its own.
import { shown } from "./dom.js";
import { classOf } from "./lens.js";

const ALONE = 0x300; // characters below this one join with no other

export class PlainInk {
  write({ text }) {
    return shown(text);
  }
}

/** Writes pieces of a text by its tokens; of one that crosses an element, each has its part. */
export class LensInk {
  rows = []; // of tokens, as the lens has them; more may come
  #ends = []; // of the tokens, in characters of the text

  /** Make the nodes of a piece. */
  write({ text, places }) {
    const cutter = new Cutter(text);
    return places.flatMap(([at, from], entry) => {
      const end = places[entry + 1]?.[0] ?? text.length;
      return this.#run(cutter, at, end, from - at);
    });
  }

  /** Write the characters up to `end`, which stand `shift` characters later in the whole text. */
  #run(cutter, at, end, shift) {
    const nodes = [];
    for (let token = this.#tokenAt(at + shift); at < end; token += 1) {
      const row = this.rows[token];
      if (!row) return [...nodes, ...shown(cutter.text.slice(at, end))]; // of no known source
      while (alike(row, this.rows[token + 1]) && this.#ends[token] - shift < end) token += 1;
      const to = cutter.border(Math.min(this.#ends[token] - shift, end));
      if (to <= at) continue;
      nodes.push(spanOf(row, token, cutter.text.slice(at, to)));
      at = to;
    }
    return nodes;
  }

  /** The first token that ends after a place. */
  #tokenAt(place) {
    while (this.#ends.length < this.rows.length) {
      const length = Math.max(Number(this.rows[this.#ends.length].length) || 0, 0);
      this.#ends.push((this.#ends.at(-1) ?? 0) + length);
    }
    let [low, high] = [0, this.#ends.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ends[middle] > place) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/** Whether two tokens have the same story, so that one span is enough. */
const alike = (one, other) =>
  other && one.by === other.by && one.round === other.round && !one.likely && !other.likely;

function spanOf({ by, round }, token, text) {
  const span = document.createElement("span");
  span.className = classOf(by);
  span.dataset.token = token;
  span.dataset.round = round;
  span.append(...shown(text));
  return span;
}

/** Finds where a text may be cut: not within what is seen as one character, as an emoji. */
class Cutter {
  #characters = null;

  constructor(text) {
    this.text = text;
  }

  /** The first border at a place or after it. */
  border(at) {
    const alone = this.text.charCodeAt(at) < ALONE && this.text.charCodeAt(at - 1) < ALONE;
    if (alone || at >= this.text.length) return at;
    this.#characters ??= new Intl.Segmenter().segment(this.text);
    const { index, segment } = this.#characters.containing(at);
    return index === at ? at : index + segment.length;
  }
}
