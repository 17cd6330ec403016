// The page: its parts, its addresses, its keys.
import { json, onKeyWanted } from "./api.js";
import { Announcer } from "./announcer.js";
import { ChatView } from "./chat_view.js";
import { find } from "./dom.js";
import { LibraryView } from "./library_view.js";
import { MachineView } from "./machine_view.js";
import { ModelPicker } from "./model_picker.js";
import { RunningAnswers } from "./running.js";
import { settingsOf } from "./request.js";
import { SettingsView } from "./settings_view.js";
import { shortcuts } from "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { openStore, prefer, preference } from "./store.js";
import { conversation } from "./tree.js";

const TOLD_MS = 6000; // for which a message stays
const VIEWS = ["chat", "machine", "models"];

class App {
  about = { manage: false, bench: false, parameters: [], lists: [] };
  conversations = new Map();

  async start() {
    this.announcer = new Announcer(find("#live"));
    onKeyWanted((refused) => this.#askForKey(refused));
    this.#theme(preference("theme", "auto"));
    this.store = await openStore();
    for (const kept of await this.store.all("conversations")) this.conversations.set(kept.id, kept);
    this.running = new RunningAnswers(this.store);
    await this.running.recover(this.conversations);
    this.models = new ModelPicker(this);
    this.chat = new ChatView(this);
    this.sidebar = new Sidebar(this);
    this.settings = new SettingsView(this);
    this.machine = new MachineView(this);
    this.library = new LibraryView(this);
    this.#controls();
    this.#route();
    if (!this.store.lasts)
      this.tell("This browser keeps nothing here: conversations last until the page goes.");
    await this.#connect();
  }

  async #connect() {
    try {
      await this.learn();
      await this.models.start();
      this.#route();
    } catch (error) {
      this.tell(`${error.message}. Load the page anew to try again.`);
    }
  }

  /** Ask what this client may do here, and by what the server samples. */
  async learn() {
    this.about = await json("localspec/about");
    find("#version").textContent = this.about.version;
  }

  #controls() {
    find("#theme").addEventListener("change", (event) => this.#theme(event.target.value));
    find("#menu").addEventListener("click", () => this.#menu());
    find("#veil").addEventListener("click", () => this.#menu(false));
    for (const close of document.querySelectorAll("dialog [data-close]")) {
      close.addEventListener("click", () => close.closest("dialog").close());
    }
    window.addEventListener("hashchange", () => this.#route());
    document.addEventListener("keydown", (event) => shortcuts(event, this));
  }

  #menu(open = !document.body.classList.contains("menu")) {
    document.body.classList.toggle("menu", open);
    find("#menu").setAttribute("aria-expanded", String(open));
  }

  #theme(theme) {
    prefer("theme", theme);
    find("#theme").value = theme;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    for (const { answer } of this.chat?.views() ?? []) answer?.timeline.draw();
  }

  /** Show what the address names: `#/chat/ID`, `#/machine`, `#/models`. */
  #route() {
    const [, name, id] = location.hash.split("/");
    const view = VIEWS.includes(name) ? name : "chat";
    for (const other of VIEWS) {
      find(`#${other}`).hidden = other !== view;
      const link = find(`nav a[href="#/${other}"]`);
      if (other === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${view[0].toUpperCase()}${view.slice(1)} · LocalSpec`;
    this.#menu(false);
    if (view === "machine") this.machine.show();
    else this.machine.hide();
    if (view === "models") this.library.show();
    else this.library.hide();
    if (view === "chat") this.#openChat(id);
  }

  #openChat(id) {
    const kept = this.conversations.get(id);
    if (kept && kept === this.chat.conversation) return;
    if (kept) this.chat.open(kept);
    else if (!this.chat.conversation || id) this.begin();
    else history.replaceState(null, "", `#/chat/${this.chat.conversation.id}`);
    this.sidebar.show();
  }

  /** Begin a conversation, or show one that was just made. */
  begin(made = null) {
    const settings = made ? null : settingsOf(preference("settings", {}));
    const fresh = made ?? conversation(settings);
    this.conversations.set(fresh.id, fresh);
    if (made) this.keep(fresh);
    this.chat.open(fresh);
    history.replaceState(null, "", `#/chat/${fresh.id}`);
    if (find("#chat").hidden) this.#route();
    this.sidebar.show();
    this.chat.composer.area.focus();
  }

  async keep(kept) {
    this.conversations.set(kept.id, kept);
    this.sidebar.show();
    try {
      if (kept.leaf) await this.store.put("conversations", kept);
    } catch (error) {
      this.tell(`the conversation could not be kept: ${error.message}`);
    }
  }

  keepSettings(settings) {
    prefer("settings", settings);
    this.chat.conversation.settings = settings;
    this.keep(this.chat.conversation);
  }

  async remove(id) {
    const { title } = this.conversations.get(id);
    if (!(await this.confirm(`Delete “${title || "Untitled"}”?`, "Delete"))) return;
    this.conversations.delete(id);
    this.chat.forget(id);
    await this.store.remove("conversations", id);
    if (this.chat.conversation.id === id) this.begin();
    this.sidebar.show();
  }

  async removeAll() {
    for (const id of this.conversations.keys()) this.chat.forget(id);
    this.conversations.clear();
    await this.store.clear("conversations");
    this.begin();
  }

  /** Say something in passing. */
  tell(words) {
    const told = find("#told");
    told.textContent = words;
    told.hidden = false;
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      told.hidden = true;
    }, TOLD_MS);
  }

  /** Ask before what cannot be taken back; resolves to whether the user agrees. */
  confirm(words, action) {
    const dialog = find("#confirm");
    find("#confirm-words").textContent = words;
    find("#confirm-yes").textContent = action;
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
    });
  }

  /** Ask for the API key; null where the user has none. Several that wait share one question. */
  #askForKey(refused) {
    this.asking ??= new Promise((resolve) => {
      const dialog = find("#key");
      find("#key-problem").textContent = refused;
      dialog.returnValue = "";
      dialog.showModal();
      dialog.addEventListener(
        "close",
        () => {
          const key = find("#key-field").value.trim();
          find("#key-field").value = "";
          this.asking = null;
          resolve(dialog.returnValue === "use" && key ? key : null);
        },
        { once: true },
      );
    });
    return this.asking;
  }
}

new App().start();
