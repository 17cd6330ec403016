// Builds elements. Texts become text nodes; nothing here interprets HTML.
import { pieces } from "./visible.js";

/** Make an element: properties by name, listeners by `onclick` and the like, then its children. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) set(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "data") Object.assign(element.dataset, value);
  else element.setAttribute(name, value === true ? "" : String(value));
}

export function button(label, onclick, properties = {}) {
  return el("button", { type: "button", onclick, ...properties }, label);
}

/** Make nodes of a text that somebody else wrote: signs that turn or hide text are shown. */
export function shown(text) {
  return pieces(text).map((piece) =>
    typeof piece === "string"
      ? document.createTextNode(piece)
      : el("span", { class: "sign", title: piece.title }, piece.label),
  );
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat().filter(Boolean));
  return element;
}

export const find = (selector, within = document) => within.querySelector(selector);
