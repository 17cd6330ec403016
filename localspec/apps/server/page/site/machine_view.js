// The machine at work: live figures, slots, memory against the plan, the log, the bench.
import { ask, json } from "./api.js";
import { BenchView } from "./bench_view.js";
import { Chart } from "./chart.js";
import { el, find, replace, shown } from "./dom.js";
import { about, nameOf } from "./lens.js";
import { acceptance, decoded, metrics, taken, total } from "./metrics.js";

const EVERY_MS = 1000; // between two looks
const SELDOM = 5; // looks, of which one is at the memory, which takes the server longer
const KEPT = 120; // looks that charts show
const MAX_LINES = 300; // of the log
const PLACES = 8; // of a draft in the table

const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)}%` : "–");
export const bytes = (count) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const unit = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), 4);
  return `${(count / 1024 ** unit).toFixed(unit > 1 ? 1 : 0)} ${units[unit]}`;
};

export class MachineView {
  #timer = null;
  #before = null; // what was decoded at the last look, and when
  #energy = null; // what the machine had taken at the last look at it
  #logged = 0; // number of the last line of the log
  #model = "";
  #looks = 0;

  constructor(app) {
    this.app = app;
    this.speed = new Chart("Tokens a second", KEPT);
    this.depth = new Chart("Drafted tokens a round", KEPT);
    find("#speed-chart").append(this.speed.element);
    find("#depth-chart").append(this.depth.element);
    this.bench = new BenchView(app);
  }

  /** Look from now on; `hide` ends that. */
  show() {
    this.hide();
    this.#looks = 0;
    this.#look();
    this.bench.show();
  }

  hide() {
    clearTimeout(this.#timer);
    this.#timer = null;
  }

  async #look() {
    const timer = (this.#timer = setTimeout(() => {}, EVERY_MS));
    try {
      if (!document.hidden) await this.#draw(this.app.models.chosen);
      find("#machine-problem").textContent = "";
    } catch (error) {
      find("#machine-problem").textContent = error.message;
    }
    if (this.#timer === timer) this.#timer = setTimeout(() => this.#look(), EVERY_MS);
  }

  async #draw(model) {
    const named = `model=${encodeURIComponent(model)}`;
    const [text, slots] = await Promise.all([
      ask("metrics").then((response) => response.text()),
      json(`slots?${named}`),
    ]);
    const samples = metrics(text);
    this.#figures(samples, slots, model);
    this.#positions(acceptance(samples, model));
    this.#slots(slots);
    if (this.#looks++ % SELDOM === 0) {
      const machine = await json(`localspec/machine?${named}`);
      this.#memory(machine, samples, model);
      this.#updates(machine);
    }
    if (this.app.about.manage) await this.#log();
    else
      find("#log").textContent =
        "The log is for clients that may manage models: start the server with --manage yes.";
  }

  #figures(samples, slots, model) {
    const now = { at: performance.now(), ...decoded(samples, slots, model) };
    const before = this.#model === model && this.#before ? this.#before : now;
    const seconds = (now.at - before.at) / 1000;
    const rounds = now.rounds - before.rounds;
    const speed = seconds ? Math.max(now.tokens - before.tokens, 0) / seconds : 0;
    const depth = rounds > 0 ? Math.max(now.drafted - before.drafted, 0) / rounds : 0;
    if (before !== now) {
      this.speed.add(speed);
      this.depth.add(depth);
    }
    this.#before = now;
    this.#model = model;
    const prompt = total(samples, "localspec_prompt_tokens_total", { model });
    const cached = total(samples, "localspec_prompt_tokens_cached_total", { model });
    const kept = total(samples, "localspec_kept_bytes", { model });
    const waiting = total(samples, "localspec_queue", { model });
    const busy = slots.filter((slot) => slot.is_processing).length;
    tell("#figure-speed", speed.toFixed(1));
    tell("#figure-depth", depth.toFixed(1));
    tell("#figure-acceptance", percent(now.accepted, now.drafted));
    tell(
      "#figure-drafted",
      `${now.accepted.toLocaleString("en")} of ${now.drafted.toLocaleString("en")} drafted`,
    );
    tell("#figure-slots", `${busy} of ${slots.length}`);
    tell("#figure-waiting", `${waiting} waiting`);
    tell("#figure-prefix", percent(cached, prompt));
    tell(
      "#figure-kept",
      `${cached.toLocaleString("en")} of ${prompt.toLocaleString("en")} prompt tokens were known; ${bytes(kept)} kept`,
    );
  }

  #positions(byProposer) {
    const rows = [...byProposer].map(([by, places]) => {
      const counts = [...places.values()].slice(0, PLACES);
      const cells = Array.from({ length: PLACES }, (_, at) => {
        const { drafted = 0, accepted = 0 } = counts[at] ?? {};
        return el(
          "td",
          { title: `${accepted} of ${drafted}` },
          drafted ? percent(accepted, drafted) : "",
        );
      });
      const head = el("th", { scope: "row", title: about(by) }, nameOf(by));
      return el("tr", {}, head, ...cells);
    });
    replace(find("#positions tbody"), ...rows);
    find("#positions").hidden = !rows.length;
    find("#no-positions").hidden = rows.length > 0;
  }

  #slots(slots) {
    replace(
      find("#slots tbody"),
      ...slots.map((slot) => {
        const read = slot.n_prompt_tokens
          ? `${slot.n_prompt_tokens_processed} of ${slot.n_prompt_tokens}`
          : "";
        const drafts = slot.n_drafted ? `${slot.n_accepted} of ${slot.n_drafted}` : "";
        const cells = [slot.is_processing ? "busy" : "free", read, slot.n_decoded ?? "", drafts];
        return el(
          "tr",
          {},
          el("th", { scope: "row" }, String(slot.id)),
          ...cells.map((cell) => el("td", {}, String(cell))),
        );
      }),
    );
  }

  /** Say what the machine took since the last look. */
  #taken(energy, model) {
    const now = energy && { ...energy, model, tokens: this.#before.tokens };
    const words = taken(this.#energy, now);
    this.#energy = now;
    return words;
  }

  #memory({ plan, devices, energy }, samples, model) {
    const resident = total(samples, "localspec_memory_bytes");
    tell("#resident", `The server takes ${bytes(resident)} of memory.${this.#taken(energy, model)}`);
    const pools = plan?.pools ?? [];
    replace(
      find("#plan"),
      ...pools.map((pool) =>
        poolView(
          pool,
          devices.find((each) => each.name === pool.name),
        ),
      ),
      ...(plan?.concessions ?? []).map(({ what, why }) =>
        el("p", {}, `Given up so that it fits: ${what} (${why})`),
      ),
    );
    if (!pools.length) tell("#plan", `${model} is not loaded, or was loaded without a plan.`);
  }

  #updates({ falls, advice, pairing, corpus }) {
    const fit =
      pairing === null
        ? []
        : [`The draft model can draft ${Math.round(100 * pairing)}% of the vocabulary.`];
    const texts = corpus.map(({ about }) => about);
    const slower = falls.length ? falls : ["Nothing became slower by an update."];
    const sentences = [...slower, ...advice, ...fit, ...texts];
    replace(find("#updates"), ...sentences.map((sentence) => el("p", {}, ...shown(sentence))));
  }

  async #log() {
    const { lines, last } = await json(`localspec/log?after=${this.#logged}`);
    if (last < this.#logged) replace(find("#log")); // the server started anew
    this.#logged = last;
    const log = find("#log");
    const follows = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    log.append(...lines.map((line) => el("div", {}, ...shown(line))));
    while (log.children.length > MAX_LINES) log.firstChild.remove();
    if (lines.length && follows) log.scrollTop = log.scrollHeight;
  }
}

function tell(selector, words) {
  find(selector).textContent = words;
}

function poolView({ name, total: all, items }, device) {
  const planned = items.reduce((sum, item) => sum + item.bytes, 0);
  const free = device
    ? `; ${bytes(device.free_bytes)} of ${bytes(device.total_bytes)} are free now`
    : "";
  return el(
    "section",
    {},
    el("h3", {}, name),
    el("meter", { min: 0, max: all, value: planned, "aria-label": `planned on ${name}` }),
    el("p", {}, `${bytes(planned)} planned of ${bytes(all)}${free}`),
    el(
      "ul",
      { class: "items" },
      ...items.map((item) => el("li", {}, `${item.what} ${bytes(item.bytes)}`)),
    ),
  );
}
