// An answer under way: its request, its events, its words for the meantime.
import { Answer } from "./answer.js";
import { events } from "./api.js";
import { requestFor, settingsOf } from "./request.js";
import { add } from "./tree.js";

const plainSpeeds = new Map(); // tokens a second without drafts by model, as answers estimated them

export class Run {
  #abort = new AbortController();

  /** `hooks` draw what came, announce it and copy it. `begun` is an answer that is to go on. */
  constructor(conversation, model, hooks, begun = null) {
    const asked = conversation.leaf;
    this.hooks = hooks;
    this.model = model;
    this.prepare = () => requestFor(conversation, model, asked);
    const { budget } = settingsOf(conversation.settings);
    this.node = begun ?? add(conversation, asked, { role: "assistant", model, budget });
    this.answer = new Answer(this.node);
  }

  stop() {
    this.#abort.abort();
  }

  async go() {
    this.hooks.announcer.begin();
    try {
      const options = { method: "POST", body: this.prepare(), signal: this.#abort.signal };
      for await (const batch of events("v1/chat/completions", options)) this.#take(batch);
      this.answer.end();
      this.#remember();
    } catch (error) {
      const stopped = error.name === "AbortError";
      this.answer.end({ stopped, error: stopped ? "" : error.message });
    }
    this.hooks.announcer.end(this.node.error || "The answer is complete.");
  }

  #take(batch) {
    const before = this.node.text.length;
    for (const event of batch) this.answer.take(event);
    this.hooks.announcer.add(this.node.text.slice(before));
    this.hooks.drawn();
    this.hooks.copy(this.node, this.answer.lens.record);
  }

  #remember() {
    const { predicted_per_second: now, speedup } = this.node.figures?.timings ?? {};
    if (now && speedup) plainSpeeds.set(this.model, now / speedup);
  }

  /** What stands under the answer while it comes. */
  words() {
    const seconds = (performance.now() - this.answer.begun) / 1000;
    if (this.answer.read !== null)
      return `reading the prompt: ${Math.round(100 * this.answer.read)}%`;
    const speed = this.answer.lens.speed();
    if (!speed) return `${seconds.toFixed(0)} s`;
    const plain = this.answer.lens.plainSpeed() ?? plainSpeeds.get(this.model);
    return (
      `${speed.toFixed(1)} tokens/s now` +
      (plain ? `, plain ≈ ${plain.toFixed(1)} by estimate` : "")
    );
  }
}
