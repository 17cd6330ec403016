// What one is still writing: the model reads it meanwhile, so that the answer begins sooner.
import { json } from "./api.js";

const PAUSE = 600; // milliseconds without a change
const WORTH = 400; // letters that were added: fewer are read in no time

export class Ahead {
  #abort = new AbortController();
  #timer = 0;
  #told = { leaf: null, letters: 0 };
  #refused = false;

  /** A message after a leaf has changed; `request` makes the request that it would be sent by. */
  note(leaf, letters, request) {
    clearTimeout(this.#timer);
    const added = letters - (leaf === this.#told.leaf ? this.#told.letters : 0);
    if (added >= WORTH && !this.#refused) {
      this.#timer = setTimeout(() => this.#tell(leaf, letters, request), PAUSE);
    }
  }

  /** It was sent. */
  forget() {
    clearTimeout(this.#timer);
    this.#told = { leaf: null, letters: 0 };
  }

  async #tell(leaf, letters, request) {
    this.#abort.abort();
    this.#abort = new AbortController();
    this.#told = { leaf, letters };
    try {
      const options = { method: "POST", body: request(), signal: this.#abort.signal };
      const { reason } = await json("v1/cache/warm", options);
      this.#refused = Boolean(reason);
    } catch {
      // It is read when it is sent, then.
    }
  }
}
