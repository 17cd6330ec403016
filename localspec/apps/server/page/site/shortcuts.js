// The keys that work everywhere on the page.
import { find } from "./dom.js";

/** Act on a key; keys that a field or a dialog needs are left to it. */
export function shortcuts(event, app) {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Escape" && app.chat.composer.busy) return act(event, () => app.chat.stop());
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  const actions = {
    KeyN: () => app.begin(),
    KeyK: () => focus("#search"),
    KeyL: () => app.chat.toggleLens(),
    KeyS: () => app.settings.open(),
    KeyM: () => focus("#model"),
    Slash: () => find("#keys").showModal(),
    Comma: () => turn(-1),
    Period: () => turn(1),
  };
  if (event.code in actions) act(event, actions[event.code]);
}

function act(event, action) {
  event.preventDefault();
  action();
}

/** Show the view before this one, or the next one. */
function turn(step) {
  const links = [...document.querySelectorAll("nav a")];
  const at = links.findIndex((link) => link.hasAttribute("aria-current"));
  links[(at + step + links.length) % links.length].click();
}

function focus(selector) {
  document.body.classList.add("menu");
  find(selector).focus();
}
