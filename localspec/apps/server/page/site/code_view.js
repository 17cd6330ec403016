// A block of code that grows: coloured line by line, laid out in groups of lines.
import { copyButton } from "./copy.js";
import { el, replace, shown } from "./dom.js";
import { colour, language } from "./highlight.js";
import { cuts } from "./long_text.js";

const GROUP = 40; // lines that are laid out together; settled ones cost nothing off the screen

export class CodeView {
  #text = "";
  #done = 0; // characters in settled lines
  #state = null; // what the last settled line left open
  #lines = 0;
  #name = null;
  #language = null;

  constructor() {
    this.label = el("span", {});
    this.code = el("code", { translate: "no" });
    this.open = el("div", {});
    const bar = el(
      "div",
      { class: "code-bar" },
      this.label,
      copyButton(() => this.#text, "Copy code"),
    );
    this.element = el(
      "div",
      { class: "code" },
      bar,
      el("pre", { tabindex: "0", role: "group", "aria-label": "Code" }, this.code, this.open),
    );
  }

  update({ language: name, text }) {
    if (name !== this.#name || !text.startsWith(this.#text.slice(0, this.#done))) this.#begin(name);
    this.#text = text;
    let end = text.indexOf("\n", this.#done);
    while (end >= 0) {
      this.#settle(text.slice(this.#done, end));
      this.#done = end + 1;
      end = text.indexOf("\n", this.#done);
    }
    replace(this.open, ...this.#draw(text.slice(this.#done)).nodes);
  }

  #begin(name) {
    this.#name = name;
    this.#language = language(name);
    this.#done = this.#lines = 0;
    this.#state = null;
    this.label.textContent = name || "text";
    this.code.replaceChildren();
  }

  #settle(line) {
    if (this.#lines % GROUP === 0)
      this.group = this.code.appendChild(el("div", { class: "lines" }));
    const { nodes, state } = this.#draw(line);
    this.group.append(...nodes, "\n");
    this.#state = state;
    this.#lines += 1;
    if (this.#lines % GROUP === 0) this.group.classList.add("whole");
  }

  #draw(line) {
    const { tokens, state } = colour(this.#language, line, this.#state);
    const nodes = tokens.flatMap(([kind, text]) =>
      kind ? el("span", { class: `c-${kind}` }, ...shown(text)) : cuts(text).map(part),
    );
    return { nodes, state };
  }
}

const part = (text, _, parts) =>
  parts.length > 1 ? el("div", { class: "cut" }, ...shown(text)) : (shown(text)[0] ?? "");
