// The button that copies a text.
import { button } from "./dom.js";

const SHOWN_MS = 1500; // for which it says that it did

export function copyButton(text, label) {
  const copy = button(
    "Copy",
    async () => {
      copy.textContent = (await copied(text())) ? "Copied" : "Not copied";
      setTimeout(() => {
        copy.textContent = "Copy";
      }, SHOWN_MS);
    },
    { class: "quiet", "aria-label": label },
  );
  return copy;
}

/** Copy a text; pages from another machine without HTTPS have no clipboard, but may select. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
