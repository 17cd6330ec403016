// The conversations that this browser keeps: search, open, export, import, delete.
import { button, el, find, replace } from "./dom.js";
import { exported, imported, matches } from "./tree.js";

const MAX_SHOWN = 300; // of a long list; a search finds the others

export class Sidebar {
  constructor(app) {
    this.app = app;
    this.list = find("#conversations");
    this.search = find("#search");
    this.file = find("#import-file");
    this.search.addEventListener("input", () => this.show());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.list.querySelector("a")?.click();
    });
    find("#new").addEventListener("click", () => app.begin());
    find("#export").addEventListener("click", () => this.#export());
    find("#import").addEventListener("click", () => this.file.click());
    find("#delete-all").addEventListener("click", () => this.#deleteAll());
    this.file.addEventListener("change", () => this.#import());
  }

  show() {
    const current = this.app.chat.conversation?.id;
    const found = [...this.app.conversations.values()]
      .filter((each) => each.leaf && matches(each, this.search.value))
      .sort((one, other) => other.changed - one.changed);
    replace(this.list, ...found.slice(0, MAX_SHOWN).map((each) => this.#entry(each, current)));
    find("#none-found").hidden = found.length > 0;
    find("#none-found").textContent = this.search.value
      ? "Nothing found."
      : "No conversations yet.";
  }

  #entry(conversation, current) {
    const title = conversation.title || "Untitled";
    const link = el(
      "a",
      {
        href: `#/chat/${conversation.id}`,
        dir: "auto",
        "aria-current": conversation.id === current ? "page" : null,
      },
      title,
    );
    const remove = button("×", () => this.app.remove(conversation.id), {
      class: "quiet",
      "aria-label": `Delete ${title}`,
    });
    return el("li", {}, link, remove);
  }

  #export() {
    const kept = [...this.app.conversations.values()].filter((each) => each.leaf);
    save("localspec-conversations.json", exported(kept));
  }

  async #import() {
    const [file] = this.file.files;
    this.file.value = "";
    if (!file) return;
    try {
      const read = imported(await file.text());
      for (const conversation of read) await this.app.keep(conversation);
      this.app.tell(`${read.length} conversations imported`);
    } catch (error) {
      this.app.tell(error.message);
    }
  }

  async #deleteAll() {
    const count = [...this.app.conversations.values()].filter((each) => each.leaf).length;
    const words = `Delete all ${count} conversations that this browser keeps? There is no way back.`;
    if (await this.app.confirm(words, "Delete all")) await this.app.removeAll();
  }
}

/** Save a text as a file. */
function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
