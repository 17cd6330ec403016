// A model's answer: its thought, its text, its calls, and the lens.
import { figures } from "./answer.js";
import { CodeView } from "./code_view.js";
import { button, el, replace, shown } from "./dom.js";
import { Lens } from "./lens.js";
import { LensInk, PlainInk } from "./lens_ink.js";
import { legend } from "./lens_view.js";
import { MarkdownView } from "./markdown_view.js";
import { piece } from "./pieces.js";
import { Timeline } from "./timeline.js";

const TIMELINE_MS = 250; // between two drawings of the timeline while an answer comes

export class AnswerView {
  #drawn = 0; // when the timeline was drawn

  constructor(node, chat) {
    this.node = node;
    this.chat = chat;
    this.lens = new Lens(node.lens);
    this.thoughtTitle = el("summary", {});
    this.thought = el("div", { class: "thought-text" });
    this.details = el(
      "details",
      { class: "thought", hidden: true },
      this.thoughtTitle,
      this.thought,
    );
    this.text = el("div", { class: "text" });
    this.calls = el("div", { class: "calls" });
    this.problem = el("p", { class: "problem", role: "alert", hidden: true });
    this.legend = el("div", {});
    this.timeline = new Timeline((round) => this.mark(round));
    this.instruments = el(
      "div",
      { class: "instruments", hidden: true },
      this.legend,
      this.timeline.element,
    );
    this.figures = el("p", { class: "figures" });
    this.more = button("Continue", () => chat.goOn(node), { class: "more", hidden: true });
    this.element = el(
      "div",
      {},
      this.details,
      this.text,
      this.calls,
      this.problem,
      this.instruments,
      el("div", { class: "row" }, this.figures, this.more),
    );
    this.element.addEventListener("pointerover", (event) => this.#hint(event));
    this.element.addEventListener("pointerout", () => this.chat.hint.hide());
    this.#begin();
    if (node.finish !== undefined || node.error) this.end();
  }

  #begin() {
    const Ink = this.chat.lens ? LensInk : PlainInk;
    this.ink = new Ink();
    this.thoughtInk = new Ink();
    this.view = new MarkdownView(replace(this.text), this.ink);
    this.thoughtView = new MarkdownView(replace(this.thought), this.thoughtInk);
  }

  /** Show it anew, with the lens or without. */
  toggle() {
    this.#begin();
    this.#texts(this.node.finish !== null || Boolean(this.node.error));
    this.#instruments(true);
  }

  /** Draw what came of a running answer. */
  draw(answer, words) {
    this.lens = answer.lens;
    this.#texts(false);
    this.#instruments(false);
    this.figures.textContent = words;
  }

  end() {
    if (this.node.lens) this.lens = new Lens(this.node.lens);
    this.#texts(true);
    this.#calls();
    this.#problem();
    this.#instruments(true);
    replace(this.figures, figures(this.node));
    this.more.hidden = !this.chat.mayGoOn(this.node);
  }

  #texts(final) {
    const { text, thought = "" } = this.node;
    this.ink.rows = this.lens.said;
    this.thoughtInk.rows = this.lens.thought;
    this.view.update(text, final);
    this.details.hidden = !thought;
    if (!thought) return;
    this.thoughtTitle.textContent = this.#thoughtWords();
    this.thoughtView.update(thought, final);
  }

  #thoughtWords() {
    const used = this.node.figures?.usage?.completion_tokens_details?.reasoning_tokens;
    const count = used || this.lens.thought.length;
    const budget = this.node.budget ? ` of ${this.node.budget}` : "";
    const cut = this.node.figures?.timings?.thoughts_cut ? ", cut at its budget" : "";
    return `Thought: ${count.toLocaleString("en")}${budget} tokens${cut}`;
  }

  #instruments(now) {
    const on = this.chat.lens && this.lens.drafted;
    this.instruments.hidden = !on;
    if (!on || (!now && performance.now() - this.#drawn < TIMELINE_MS)) return;
    this.#drawn = performance.now();
    replace(this.legend, legend(this.lens.sources()));
    this.timeline.update(this.lens);
  }

  #problem() {
    const words = [...(this.node.error ? [this.node.error] : []), ...(this.node.notices ?? [])];
    this.problem.hidden = !words.length;
    replace(this.problem, ...shown(words.join("\n")));
  }

  #calls() {
    replace(this.calls, ...(this.node.calls ?? []).map((call) => callView(call)));
    if (this.node.calls?.length && this.chat.awaits(this.node)) this.calls.append(this.#results());
  }

  #results() {
    const fields = this.node.calls.map((call) =>
      el(
        "label",
        {},
        `Result of ${call.name}`,
        el("textarea", { rows: 2, placeholder: "What the tool answers" }),
      ),
    );
    const send = () =>
      this.chat.results(
        this.node,
        fields.map((field) => field.lastChild.value),
      );
    return el(
      "div",
      { class: "results" },
      ...fields,
      button("Send results", send, { class: "main" }),
    );
  }

  /** Mark the tokens of a row of rounds; null: of none. */
  mark(round) {
    const all = (selector) => this.element.querySelectorAll(selector);
    for (const token of all(".marked")) token.classList.remove("marked");
    if (round === null) return;
    for (const token of all(`[data-round="${round}"]`)) token.classList.add("marked");
  }

  #hint(event) {
    const token = event.target.closest("[data-token]");
    if (!token) return this.chat.hint.hide();
    const rows = this.thought.contains(token) ? this.lens.thought : this.lens.said;
    const row = rows[Number(token.dataset.token)];
    this.chat.hint.show(token, this.lens.rounds[row.round], row.round + 1, row);
  }
}

function callView({ name, arguments: given }) {
  const code = new CodeView();
  let text = given;
  try {
    text = JSON.stringify(JSON.parse(given), null, 2);
  } catch {
    // An answer that was cut off: its arguments as they came.
  }
  code.update({ language: "json", ...piece(text) });
  return el(
    "section",
    { class: "call" },
    el("h3", {}, "Call of ", el("code", {}, ...shown(name))),
    code.element,
  );
}
