// The button that measures the loaded model by `localspec bench`, and the reports that it wrote.
import { json } from "./api.js";
import { button, el, find, replace, shown } from "./dom.js";

const EVERY_MS = 2000; // between two looks at a run

export class BenchView {
  #timer = null;

  constructor(app) {
    this.app = app;
    this.start = find("#bench-start");
    this.state = find("#bench-state");
    this.start.addEventListener("click", () => this.#begin());
  }

  async show() {
    await this.#reports();
    await this.#look();
  }

  async #begin() {
    const model = this.app.models.chosen;
    const words = `Measure ${model} now? It takes about three minutes. The model leaves memory meanwhile, and requests for it wait.`;
    if (!(await this.app.confirm(words, "Measure"))) return;
    try {
      await json("localspec/bench", { method: "POST", body: { model } });
    } catch (error) {
      this.app.tell(error.message);
    }
    await this.#look();
  }

  async #look() {
    clearTimeout(this.#timer);
    if (!this.app.about.manage || !this.app.about.bench) {
      this.start.disabled = true;
      this.state.textContent = "Clients of this server may not measure.";
      return;
    }
    const run = await json("localspec/bench");
    this.start.disabled = run.state === "running";
    this.state.textContent = {
      none: "",
      running: `Measuring ${run.model}: ${Math.round(run.seconds)} s`,
      done: `Measured ${run.model}.`,
      failed: `${run.model} could not be measured: ${run.error}`,
    }[run.state];
    if (run.state === "running") this.#timer = setTimeout(() => this.#look(), EVERY_MS);
    if (run.state === "done") await this.#keep(run);
  }

  async #keep({ model, report, started }) {
    await this.app.store.put("reports", { id: `${started} ${model}`, model, report, started });
    await this.#reports();
  }

  async #reports() {
    const reports = await this.app.store.all("reports");
    reports.sort((one, other) => other.started - one.started);
    replace(find("#reports"), ...reports.map((entry) => this.#report(entry)));
  }

  #report({ id, model, report, started }) {
    const when = new Date(started * 1000).toLocaleString();
    const remove = async () => {
      await this.app.store.remove("reports", id);
      await this.#reports();
    };
    return el(
      "details",
      {},
      el("summary", {}, `${model}, ${when}`),
      el("pre", { tabindex: "0", role: "group", "aria-label": "Report" }, ...shown(report)),
      button("Remove this report", remove, { class: "quiet" }),
    );
  }
}
