// The model that answers: chosen from those that the server has, with its state.
import { events, json } from "./api.js";
import { el, find, replace } from "./dom.js";
import { prefer, preference } from "./store.js";

const AGAIN_MS = 2000; // until a server that went away is asked anew

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class ModelPicker {
  models = [];
  gone = false; // whether the server does not answer
  #loading = new Map(); // since when, by model
  #shares = new Map(); // how far each is loaded, in words

  constructor(app) {
    this.app = app;
    this.select = find("#model");
    this.status = find("#model-status");
    this.select.addEventListener("change", () => this.#choose());
    setInterval(() => this.#loading.size && this.#tell(), 500);
  }

  get chosen() {
    return this.select.value;
  }

  /** Show the models, and follow what becomes of them and of the server. */
  async start() {
    this.#show((await json("v1/models")).data);
    this.#listen();
  }

  /** Ask for the models anew; returns whether the server answered. */
  async refresh() {
    try {
      this.#show((await json("v1/models")).data);
    } catch (error) {
      this.gone = error.status === 0;
      this.#tell();
      return false;
    }
    return true;
  }

  #show(data) {
    this.gone = false;
    this.models = data;
    const texts = data.filter((model) => model.architecture.output_modalities.includes("text"));
    const kept = this.chosen || preference("model", "");
    replace(
      this.select,
      ...texts.map(({ id }) => el("option", { value: id, selected: id === kept }, id)),
    );
    for (const { id, status } of data) {
      if (status.value !== "loading") this.#loading.delete(id);
      else if (!this.#loading.has(id)) this.#loading.set(id, performance.now());
    }
    this.#tell();
  }

  get #model() {
    return this.models.find((model) => model.id === this.chosen);
  }

  #tell() {
    const model = this.#model;
    const since = this.#loading.get(this.chosen);
    const seconds = since === undefined ? 0 : (performance.now() - since) / 1000;
    const drafter = model?.drafter ? `, drafts by ${model.drafter}` : "";
    this.status.textContent = this.gone
      ? "no server"
      : !model
      ? "no model is served"
      : model.status.failed
        ? "it could not be loaded; the server's log says why"
        : since === undefined
          ? `${model.status.value}${drafter}`
          : `loading${this.#shares.get(this.chosen) ?? ""}, ${seconds.toFixed(0)} s`;
    this.status.classList.toggle("problem", this.gone);
  }

  async #choose() {
    prefer("model", this.chosen);
    this.#tell();
    if (this.#model.status.value === "unloaded" && this.app.about.manage)
      await this.load(this.chosen);
  }

  async load(model) {
    this.#loading.set(model, performance.now());
    try {
      await json("models/load", { method: "POST", body: { model } });
    } catch (error) {
      this.#loading.delete(model);
      this.app.tell(error.message);
    }
    await this.refresh();
  }

  /** Whether the chosen model reads pictures. */
  sees() {
    return Boolean(this.#model?.architecture.input_modalities?.includes("image"));
  }

  async #listen() {
    for (;;) {
      try {
        for await (const batch of events("models/sse"))
          for (const event of batch) await this.#event(event);
      } catch (error) {
        if (error.status === 401) return;
        // The server went away, or has too many listeners: asked again below.
      }
      await this.refresh();
      do await pause(AGAIN_MS);
      while (!(await this.refresh()));
      await this.app.learn().catch(() => {}); // it may be another server
    }
  }

  /** Show how far the chosen model is loaded. */
  #progress(model, { current, value }) {
    const what = current === "spec_model" ? " the draft model" : "";
    this.#shares.set(model, `${what} ${Math.round(100 * value)}%`);
    this.#tell();
  }

  async #event({ model, event, data }) {
    const progress = event === "model_status" ? data?.progress : null;
    if (progress) return this.#progress(model, progress);
    if (event === "download_progress") return this.app.library?.progress(model, data[model]);
    if (event.startsWith("download_")) this.app.library?.downloaded(model, event, data);
    this.#shares.delete(model);
    await this.refresh();
    this.app.library?.refresh();
  }
}
