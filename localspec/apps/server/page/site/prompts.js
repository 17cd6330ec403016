// System prompts with names, which this browser keeps: chosen, saved and deleted in the settings.
import { button, el, replace } from "./dom.js";
import { prefer, preference } from "./store.js";

const MAX_NAME = 60; // characters

export class NamedPrompts {
  /** `area` holds the system prompt of the conversation. */
  constructor(area) {
    this.area = area;
    this.choice = el("select", { onchange: () => this.#choose() });
    this.name = el("input", { type: "text", maxlength: MAX_NAME, onkeydown: (event) => this.#key(event) });
    this.told = el("small", { role: "status" }, "Kept in this browser, for all conversations.");
    this.remove = button("Delete", () => this.#remove());
    this.element = el(
      "div",
      { class: "prompts" },
      el("label", {}, "Saved prompts", this.choice),
      this.remove,
      el("label", {}, "Name of this prompt", this.name),
      button("Save", () => this.#save()),
      this.told,
    );
    this.#show("");
  }

  get #all() {
    const kept = preference("prompts", {});
    return new Map(Object.entries(kept).filter(([, text]) => typeof text === "string"));
  }

  #keep(prompts, name, words) {
    prefer("prompts", Object.fromEntries(prompts));
    this.told.textContent = words;
    this.#show(name);
  }

  #show(chosen) {
    const names = [...this.#all.keys()].sort((one, other) => one.localeCompare(other));
    replace(
      this.choice,
      el("option", { value: "" }, names.length ? "choose one" : "none yet"),
      ...names.map((name) => el("option", { value: name, selected: name === chosen }, name)),
    );
    this.remove.disabled = !this.choice.value;
  }

  #choose() {
    const name = this.choice.value;
    this.remove.disabled = !name;
    if (!name) return;
    this.name.value = name;
    this.area.value = this.#all.get(name) ?? "";
    this.area.dispatchEvent(new Event("input"));
  }

  #key(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    this.#save();
  }

  #save() {
    const name = this.name.value.trim();
    if (!name) {
      this.told.textContent = "Give it a name first.";
      this.name.focus();
      return;
    }
    this.#keep(this.#all.set(name, this.area.value), name, `“${name}” is saved in this browser.`);
  }

  #remove() {
    const prompts = this.#all;
    const name = this.choice.value;
    prompts.delete(name);
    this.#keep(prompts, "", `“${name}” is deleted.`);
    this.choice.focus();
  }
}
