// What explains the lens: the hint at a token, and the names of the colours.
import { el, replace, shown } from "./dom.js";
import { about, classOf, nameOf, sentence } from "./lens.js";

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
      el("p", {}, el("b", { class: classOf(row.by) }, nameOf(row.by)), ` · ${about(row.by)}`),
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
        `${nameOf(by)} ${count}`,
      ),
    ),
  );
}
