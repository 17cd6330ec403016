// A line over the last minutes, as a picture of its own with words for those who do not see it.
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 240;
const HEIGHT = 48;
const LEAST = 30; // values that the width stands for, at least

function shape(tag, properties) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  return element;
}

/** The points of a line through values, the last one at the right. */
export function points(values, most, width = WIDTH, height = HEIGHT) {
  const step = width / Math.max(most - 1, 1);
  const top = Math.max(...values, 1e-9);
  const first = width - step * (values.length - 1);
  return values.map(
    (value, at) =>
      `${(first + at * step).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`,
  );
}

export class Chart {
  constructor(label, most) {
    this.label = label;
    this.most = most; // values that are shown
    this.values = [];
    this.line = shape("polyline", {
      fill: "none",
      stroke: "currentColor",
      "stroke-width": "1.5",
      "vector-effect": "non-scaling-stroke",
    });
    this.element = shape("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      class: "chart",
    });
    this.element.append(this.line);
    this.#draw();
  }

  add(value) {
    this.values = [...this.values, value].slice(-this.most);
    this.#draw();
  }

  #draw() {
    this.line.setAttribute("points", points(this.values, Math.max(this.values.length, LEAST)).join(" "));
    const last = this.values.at(-1) ?? 0;
    const top = Math.max(0, ...this.values);
    this.element.setAttribute(
      "aria-label",
      `${this.label}: ${last.toFixed(1)} now, ${top.toFixed(1)} at most`,
    );
  }
}
