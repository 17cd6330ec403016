// An answer as the lens shows it: each token in the colour of its source.
import { el, replace, shown } from "./dom.js";
import { about, classOf, sentence } from "./lens.js";
import { GrowingText } from "./long_text.js";

export class LensView {
  #tokens = 0; // rows of `said` that were drawn
  #length = 0; // characters

  constructor(element) {
    this.element = element;
    this.text = new GrowingText(element);
  }

  /** Draw what came: rows of tokens, of the text that they make. */
  update(text, _, rows) {
    for (const row of rows.slice(this.#tokens)) {
      const token = text.slice(this.#length, this.#length + row.length);
      const properties = {
        class: classOf(row.by),
        data: { round: row.round, token: this.#tokens },
      };
      this.text.add(token, (nodes) => el("span", properties, ...nodes));
      this.#length += row.length;
      this.#tokens += 1;
    }
    if (this.#length < text.length) this.text.add(text.slice(this.#length)); // of no known source
    this.#length = text.length;
  }

  /** Mark the tokens of a row of rounds; null: of none. */
  mark(round) {
    for (const token of this.element.querySelectorAll(".marked")) token.classList.remove("marked");
    if (round === null) return;
    for (const token of this.element.querySelectorAll(`[data-round="${round}"]`)) {
      token.classList.add("marked");
    }
  }
}

/** The one hint that follows the pointer over tokens. */
export class Hint {
  constructor() {
    this.element = document.body.appendChild(
      el("div", { class: "hint", role: "tooltip", hidden: true }),
    );
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
    document.addEventListener("scroll", () => this.hide(), { capture: true, passive: true });
  }

  show(token, round, number, row) {
    const likely = row.likely?.slice(0, 6) ?? [];
    replace(
      this.element,
      el("p", {}, el("b", { class: classOf(row.by) }, row.by), ` · ${about(row.by)}`),
      round && el("p", {}, sentence(round, number)),
      round?.rejected ? words(`rejected: ${JSON.stringify(String(round.rejected))}`) : null,
      likely.length ? words(likelihoods(likely)) : null,
    );
    this.element.hidden = false;
    const box = token.getBoundingClientRect();
    const own = this.element.getBoundingClientRect();
    const left = Math.min(Math.max(box.left, 8), innerWidth - own.width - 8);
    const below = box.bottom + 6 + own.height < innerHeight;
    this.element.style.left = `${left}px`;
    this.element.style.top = `${below ? box.bottom + 6 : box.top - own.height - 6}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}

const words = (text) => el("p", { class: "likely" }, ...shown(text));

function likelihoods([chosen, ...others]) {
  const percent = ({ token, share }) => `${JSON.stringify(token)} ${(100 * share).toFixed(1)}%`;
  const rest = others.filter(({ token }) => token !== chosen.token).map(percent);
  return `${percent(chosen)}${rest.length ? `; or ${rest.join(", ")}` : ""}`;
}

/** Name the colours of the sources that an answer has. */
export function legend(counts) {
  return el(
    "ul",
    { class: "legend", "aria-label": "Tokens by source" },
    ...[...counts].map(([by, count]) =>
      el(
        "li",
        { title: about(by) },
        el("span", { class: `swatch ${classOf(by)}` }),
        `${by} ${count}`,
      ),
    ),
  );
}
