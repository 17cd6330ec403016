// A block of code that grows: coloured line by line, laid out in groups of lines.
import { copyButton } from "./copy.js";
import { el, replace } from "./dom.js";
import { colour, language } from "./highlight.js";
import { PlainInk } from "./lens_ink.js";
import { cuts } from "./long_text.js";
import { cut, piece } from "./pieces.js";

const GROUP = 40; // lines that are laid out together; settled ones cost nothing off the screen

export class CodeView {
  #source = piece("");
  #done = 0; // characters in settled lines
  #state = null; // what the last settled line left open
  #lines = 0;
  #name = null;
  #language = null;

  /** `ink` writes the code. */
  constructor(ink = new PlainInk()) {
    this.ink = ink;
    this.label = el("span", {});
    this.code = el("code", { translate: "no" });
    this.open = el("div", {});
    const bar = el(
      "div",
      { class: "code-bar" },
      this.label,
      copyButton(() => this.#source.text, "Copy code"),
    );
    this.element = el(
      "div",
      { class: "code" },
      bar,
      el("pre", { tabindex: "0", role: "group", "aria-label": "Code" }, this.code, this.open),
    );
  }

  update({ language: name, text, places }) {
    const same = text.startsWith(this.#source.text.slice(0, this.#done));
    if (name !== this.#name || !same) this.#begin(name);
    this.#source = { text, places };
    let end = text.indexOf("\n", this.#done);
    while (end >= 0) {
      this.#settle(cut(this.#source, this.#done, end));
      this.#done = end + 1;
      end = text.indexOf("\n", this.#done);
    }
    replace(this.open, ...this.#draw(cut(this.#source, this.#done)).nodes);
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
    const { tokens, state } = colour(this.#language, line.text, this.#state);
    let at = 0;
    const written = (text) => this.ink.write(cut(line, at, (at += text.length)));
    const nodes = tokens.flatMap(([kind, text]) => {
      if (kind) return [el("span", { class: `c-${kind}` }, ...written(text))];
      const parts = cuts(text).map(written);
      return parts.length > 1 ? parts.map((part) => el("div", { class: "cut" }, ...part)) : parts[0];
    });
    return { nodes, state };
  }
}
