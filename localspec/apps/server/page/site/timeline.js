// The rounds of an answer as bars: who drafted, how deep, how long. Arrow keys go through them.
import { el } from "./dom.js";
import { classOf, sentence } from "./lens.js";

const HEIGHT = 56; // pixels
const MIN_DEPTH = 4; // tokens that the height stands for, at least

export class Timeline {
  #lens = null;
  #chosen = -1;

  /** `onchoose` hears which row of rounds somebody points at; null: none. */
  constructor(onchoose) {
    this.onchoose = onchoose;
    this.canvas = el("canvas", {
      role: "slider",
      tabindex: "0",
      "aria-label": "Rounds of the answer",
      "aria-valuemin": "1",
      onkeydown: (event) => this.#key(event),
      onpointermove: (event) => this.#choose(this.#at(event.offsetX)),
      onpointerleave: () => this.#choose(-1),
      onblur: () => this.#choose(-1),
    });
    this.canvas.height = HEIGHT;
    this.words = el("p", { class: "reading" });
    this.element = el("div", { class: "timeline" }, this.canvas, this.words);
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  update(lens) {
    this.#lens = lens;
    this.canvas.setAttribute("aria-valuemax", Math.max(lens.rounds.length, 1));
    this.#tell();
    this.draw();
  }

  #tell() {
    const rounds = this.#lens.rounds;
    const chosen = rounds[this.#chosen];
    const deepest = depthOf(rounds);
    const words = chosen
      ? sentence(chosen, this.#chosen + 1)
      : `${rounds.reduce((sum, round) => sum + round.count, 0)} rounds of the model, up to ${deepest} tokens drafted for one`;
    this.words.textContent = words;
    this.canvas.setAttribute("aria-valuenow", this.#chosen + 1);
    this.canvas.setAttribute("aria-valuetext", words);
  }

  #key(event) {
    const last = this.#lens.rounds.length - 1;
    const steps = { ArrowLeft: this.#chosen - 1, ArrowRight: this.#chosen + 1, Home: 0, End: last };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.#choose(Math.min(Math.max(steps[event.key], 0), last));
  }

  #choose(at) {
    if (at === this.#chosen || !this.#lens) return;
    this.#chosen = at;
    this.#tell();
    this.draw();
    this.onchoose(at < 0 ? null : at);
  }

  /** The share of the width up to the end of each row. */
  #ends() {
    let sum = 0;
    const ends = widths(this.#lens.rounds).map((width) => (sum += width));
    return ends.map((end) => end / (sum || 1));
  }

  #at(x) {
    const share = x / this.canvas.clientWidth;
    return this.#ends().findIndex((end) => share <= end);
  }

  draw() {
    const width = this.element.clientWidth;
    if (!width || !this.#lens) return;
    const scale = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * scale, height: HEIGHT * scale });
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const paint = new Painting(context, this.canvas, width);
    const deepest = Math.max(MIN_DEPTH, depthOf(this.#lens.rounds) + 1);
    let from = 0;
    this.#ends().forEach((end, at) => {
      paint.bar(
        this.#lens.rounds[at],
        from * width,
        end * width,
        HEIGHT / deepest,
        at === this.#chosen,
      );
      from = end;
    });
  }
}

const depthOf = (rounds) => rounds.reduce((most, round) => Math.max(most, round.drafted), 0);

/** How wide rows are beside each other: by time, but for the first, which has the prompt in it. */
export function widths(rounds) {
  const later = rounds.slice(1).filter((round) => round.ms);
  if (!later.length) return rounds.map((round) => round.count);
  const usual = later.reduce((sum, round) => sum + round.ms, 0) / later.length;
  return rounds.map((round, at) => (at === 0 ? usual : Math.max(round.ms, usual / 1000)));
}

class Painting {
  constructor(context, canvas, width) {
    this.context = context;
    this.style = getComputedStyle(canvas);
    this.width = width;
    this.colours = new Map();
  }

  colour(name) {
    if (!this.colours.has(name))
      this.colours.set(name, this.style.getPropertyValue(`--${name}`).trim());
    return this.colours.get(name);
  }

  /** From below: the model's own token, the accepted ones, and pale those that it rejected. */
  bar(round, left, right, unit, chosen) {
    const gap = right - left > 3 ? 1 : 0;
    const own = chosen ? this.colour("ink") : this.colour("by-target");
    const drafter = this.colour(classOf(round.by));
    const width = Math.max(right - left - gap, 0.5);
    this.#fill(own, 1, left, HEIGHT - unit, width, unit);
    const accepted = round.accepted * unit;
    this.#fill(drafter, 1, left, HEIGHT - unit - accepted, width, accepted);
    const rejected = (round.drafted - round.accepted) * unit;
    this.#fill(drafter, 0.3, left, HEIGHT - unit - accepted - rejected, width, rejected);
    if (chosen) this.#fill(own, 0.12, left, 0, Math.max(width, 1), HEIGHT);
  }

  #fill(colour, alpha, ...box) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = colour;
    this.context.fillRect(...box);
  }
}
