// The models: those that are here, those that fit, and what becomes of them.
import { json } from "./api.js";
import { bytes } from "./machine_view.js";
import { button, el, find, replace } from "./dom.js";

const RANKS = { loaded: 0, served: 1, here: 2, able: 3, unable: 4 }; // the order of the list
const CELLS = ["weights", "size", "drafter", "speed"];
const DRAFTERS = { none: "", model: "draft model" };
const STATES = { unloaded: "not loaded" };
const ENDS = { download_finished: "is here now", download_failed: "was not downloaded" };

export class LibraryView {
  #pulling = new Map(); // bytes done and in all, by the name that was asked for
  #shown = false;

  constructor(app) {
    this.app = app;
    this.rows = [];
    find("#pull").addEventListener("submit", (event) => {
      event.preventDefault();
      const field = find("#pull-name");
      if (field.value.trim()) this.pull(field.value.trim());
      field.value = "";
    });
    find("#library-filter").addEventListener("input", () => this.#show());
    find("#library-all").addEventListener("change", () => this.#show());
  }

  async show() {
    this.#shown = true;
    find("#pull").hidden = !this.app.about.manage;
    find("#library-note").textContent = this.app.about.manage
      ? ""
      : "Clients of this server may not manage its models: start it with --manage yes.";
    this.#show();
    await this.refresh();
  }

  hide() {
    this.#shown = false;
  }

  async refresh() {
    if (!this.#shown) return;
    if (this.app.about.manage) this.rows = (await json("localspec/catalogue")).models;
    this.#show();
  }

  /** Note how far a download is, as the events of models tell it. */
  progress(model, { done = 0, total = 0 } = {}) {
    this.#pulling.set(model, { done, total });
    this.#show();
  }

  downloaded(model, event, data) {
    this.#pulling.delete(model);
    this.app.tell(`${model} ${ENDS[event] ?? event}${data?.message ? `: ${data.message}` : ""}`);
    this.refresh();
  }

  async pull(model) {
    this.#pulling.set(model, { done: 0, total: 0 });
    this.#show();
    await this.#act(
      () => json("models", { method: "POST", body: { model } }),
      () => this.#pulling.delete(model),
    );
  }

  async remove(model, size) {
    const words = `Remove ${model} and free ${bytes(size)} on the disk of the server?`;
    if (!(await this.app.confirm(words, "Remove"))) return;
    await this.#act(() => json(`models?model=${encodeURIComponent(model)}`, { method: "DELETE" }));
  }

  async #act(work, undo = () => {}) {
    try {
      await work();
    } catch (error) {
      undo();
      this.app.tell(error.message);
    }
    await this.app.models.refresh();
    await this.refresh();
  }

  #show() {
    if (!this.#shown) return;
    const words = find("#library-filter").value.toLowerCase();
    const known = new Map(this.rows.map((row) => [row.name, row]));
    for (const model of this.app.models.models) {
      const row = known.get(model.id);
      if (!row?.here) known.set(model.id, { ...row, ...servedRow(model) });
    }
    for (const name of this.#pulling.keys())
      if (!known.has(name)) known.set(name, { name, state: "" });
    const rows = [...known.values()]
      .filter((row) => row.name.toLowerCase().includes(words))
      .map((row) => ({ ...row, rank: this.#rank(row) }))
      .sort((one, other) => one.rank - other.rank);
    const able = rows.filter(({ rank }) => rank < RANKS.unable);
    const all = find("#library-all").checked;
    replace(find("#library tbody"), ...(all ? rows : able).map((row) => this.#row(row)));
    find("#library-unable").textContent = (rows.length - able.length).toLocaleString("en");
  }

  #served(name) {
    return this.app.models.models.find((model) => model.id === name);
  }

  #rank({ name, here, on_disk: onDisk, pullable }) {
    const served = this.#served(name);
    if (served) return served.status.value === "unloaded" ? RANKS.served : RANKS.loaded;
    if (here || (onDisk && pullable)) return RANKS.here;
    return pullable || this.#pulling.has(name) ? RANKS.able : RANKS.unable;
  }

  #row(row) {
    const served = this.#served(row.name);
    const size = (count) => (count ? bytes(count) : "");
    const drafter = [DRAFTERS[row.drafter] ?? row.drafter, size(row.drafter_bytes)];
    const cells = [row.weights, size(row.bytes), drafter.filter(Boolean).join(" "), row.speed];
    const cell = (name, ...children) => el("td", { role: "cell", class: name }, ...children);
    const state = served ? (STATES[served.status.value] ?? served.status.value) : row.state;
    return el(
      "tr",
      { role: "row" },
      el("th", { scope: "row", role: "rowheader" }, row.name),
      ...cells.map((words, at) => cell(words ? CELLS[at] : "none", words ?? "")),
      cell("state", state),
      cell("row", ...(this.app.about.manage ? this.#actions(row, served) : [])),
    );
  }

  #actions(row, served) {
    const name = row.name;
    const labelled = (words, act) => button(words, act, { "aria-label": `${words} ${name}` });
    const pulling = this.#pulling.get(name);
    if (pulling) {
      const value = pulling.total ? Math.min(pulling.done, pulling.total) : null;
      return [
        el("progress", { max: pulling.total || 1, value, "aria-label": `download of ${name}` }),
        el(
          "span",
          {},
          pulling.total ? `${bytes(pulling.done)} of ${bytes(pulling.total)}` : "begins",
        ),
        labelled("Cancel", () =>
          this.#act(() => json("models/unload", { method: "POST", body: { model: name } })),
        ),
      ];
    }
    const actions = [];
    if (served?.status.value === "unloaded")
      actions.push(labelled("Load", () => this.app.models.load(name)));
    if (served?.status.value === "loaded") {
      actions.push(
        labelled("Unload", () =>
          this.#act(() => json("models/unload", { method: "POST", body: { model: name } })),
        ),
      );
    }
    if (row.here) {
      if (!served) actions.push(labelled("Serve", () => this.app.models.load(name)));
      actions.push(
        labelled("Remove", () => this.remove(name, row.bytes + (row.drafter_bytes ?? 0))),
      );
    } else if (row.pullable && !served) {
      actions.push(labelled(row.on_disk ? "Add" : "Pull", () => this.pull(name)));
    }
    return actions;
  }
}

function servedRow({ id, meta = {}, drafter }) {
  const own = { weights: meta.ftype, bytes: meta.size, drafter, drafter_bytes: 0, speed: "" };
  return { ...own, name: id, state: "", here: false };
}
