// The settings of a conversation: its system prompt, sampling, form, tools, thought and drafts.
import { json } from "./api.js";
import { el, find, replace } from "./dom.js";
import { NamedPrompts } from "./prompts.js";
import { DEFAULTS, schema, settingsOf, tools } from "./request.js";
import { prefer, preference } from "./store.js";

const USUAL = ["top_k", "top_p", "min_p", "repeat_penalty"]; // numbers that many people know
const lines = (text) => text.split("\n").filter(Boolean);

export class SettingsView {
  /** `app` knows the conversation, and the parameters that the server samples by. */
  constructor(app) {
    this.app = app;
    this.dialog = find("#settings");
    this.fields = find("#settings-fields");
    find("#open-settings").addEventListener("click", () => this.open());
    find("#settings-reset").addEventListener("click", () => this.#reset());
    find("#settings-simple").addEventListener("click", () => this.#reveal(false));
    find("#settings-all").addEventListener("click", () => this.#reveal(true));
    this.dialog.addEventListener("close", () => this.app.keepSettings(this.settings));
  }

  async open() {
    this.settings = settingsOf(this.app.chat.conversation.settings);
    this.usual = await this.#usual();
    this.#show();
    this.dialog.showModal();
  }

  /** The values that count where nothing is set. */
  async #usual() {
    try {
      const props = await json(`props?model=${encodeURIComponent(this.app.models.chosen)}`);
      return props.default_generation_settings.params;
    } catch {
      return {};
    }
  }

  #reset() {
    this.settings = settingsOf(DEFAULTS);
    this.#show();
  }

  /** Show the settings that most people need, or all. */
  #reveal(all) {
    prefer("settings-all", all);
    find("#settings-simple").setAttribute("aria-pressed", String(!all));
    find("#settings-all").setAttribute("aria-pressed", String(all));
    for (const field of this.fields.querySelectorAll(".more")) field.hidden = !all;
  }

  #show() {
    const system = this.#area("system", "System prompt", { rows: 4 });
    const named = new NamedPrompts(find("textarea", system));
    replace(
      this.fields,
      system,
      named.element,
      group("", this.#temperature(), this.#most(), this.#thinking(), this.#drafting()),
      ...this.#rest().map((field) => {
        field.classList.add("more");
        return field;
      }),
    );
    this.#reveal(preference("settings-all", false));
  }

  #temperature() {
    const temperature = this.app.about.parameters.find(({ name }) => name === "temperature");
    const words = "0: the likeliest words; higher: more variety";
    return temperature ? this.#parameter(temperature, "Temperature", words) : null;
  }

  #most() {
    return this.#number("maxTokens", "Longest answer, in tokens", { min: 1 });
  }

  #thinking() {
    return this.#choice("think", "Thinking", { "": "as the model does", on: "on", off: "off" });
  }

  #drafting() {
    return this.#check("drafts", "Draft tokens ahead: faster, the same text");
  }

  /** The settings that few people need. */
  #rest() {
    const usual = ({ name }) => USUAL.includes(name);
    const others = this.app.about.parameters.filter(({ name }) => name !== "temperature");
    const shown = (parameters) => parameters.map((each) => this.#parameter(each));
    return [
      group(
        "Length and end",
        this.#number("budget", "Longest thought, in tokens", { min: 0 }),
        this.#list("stop", "End at these texts, one a line"),
        this.#list("banned", "Texts that must not occur, one a line"),
        this.#number("seed", "Seed: the same number gives the same answer", { min: 0 }),
      ),
      this.#area("schema", "JSON schema that the answer follows", {
        rows: 4,
        class: "mono",
        check: schema,
      }),
      this.#area("tools", "Tools: a JSON list of functions", {
        rows: 4,
        class: "mono",
        check: tools,
      }),
      group("How words are chosen", ...shown(others.filter(usual))),
      group(
        "Drafts",
        this.#text("proposer", "Only by these proposers", "all that the model has"),
        this.#number("depth", "Longest draft, in tokens", { min: 0 }),
        this.#number("alternatives", "Likely tokens that the lens shows", { min: 0, max: 20 }),
      ),
      group(
        "More about how words are chosen",
        ...shown(others.filter((parameter) => !usual(parameter))),
        ...this.app.about.lists.map((list) => this.#texts(list)),
      ),
    ];
  }

  #set(name, value) {
    this.settings[name] = value;
  }

  #area(name, label, { check, ...properties }) {
    const area = el("textarea", {
      ...properties,
      dir: "auto",
      spellcheck: name === "system" ? "true" : "false",
    });
    const problem = el("span", { class: "problem" });
    area.value = this.settings[name];
    area.addEventListener("input", () => {
      this.#set(name, area.value);
      problem.textContent = check ? fault(check, area.value) : "";
      area.setAttribute("aria-invalid", String(Boolean(problem.textContent)));
    });
    return el("label", { class: "wide" }, label, area, problem);
  }

  #input(name, label, properties, read = (input) => input.value) {
    const input = el("input", properties);
    if (properties.type === "checkbox") input.checked = this.settings[name];
    else input.value = this.settings[name];
    input.addEventListener("input", () => input.checkValidity() && this.#set(name, read(input)));
    return el("label", {}, label, input);
  }

  #number(name, label, properties) {
    const count = typeof DEFAULTS[name] === "number";
    const read = (input) => (count ? Number(input.value) : input.value);
    return this.#input(name, label, { type: "number", step: 1, ...properties }, read);
  }

  #text(name, label, placeholder) {
    return this.#input(name, label, { type: "text", placeholder });
  }

  #check(name, label) {
    return this.#input(name, label, { type: "checkbox" }, (input) => input.checked);
  }

  #choice(name, label, choices) {
    const select = el(
      "select",
      {},
      ...Object.entries(choices).map(([value, words]) =>
        el("option", { value, selected: value === this.settings[name] }, words),
      ),
    );
    select.addEventListener("change", () => this.#set(name, select.value));
    return el("label", {}, label, select);
  }

  #list(name, label) {
    const area = el("textarea", { rows: 2, class: "mono" });
    area.value = this.settings[name].join("\n");
    area.addEventListener("input", () => this.#set(name, lines(area.value)));
    return el("label", {}, label, area);
  }

  /** A number of sampling: what it does, and its name in the API. */
  #parameter({ name, about, low, high, whole }, label = about, more = name) {
    const usual = this.usual[name];
    const placeholder = typeof usual === "number" ? String(Number(usual.toPrecision(6))) : "";
    const input = el("input", {
      type: "number",
      min: low,
      max: high,
      step: whole ? 1 : "any",
      placeholder,
    });
    input.value = this.settings.sampling[name] ?? "";
    input.addEventListener("input", () => {
      if (!input.checkValidity()) return;
      if (input.value === "") delete this.settings.sampling[name];
      else this.settings.sampling[name] = Number(input.value);
    });
    return el("label", {}, label, input, el("small", {}, more));
  }

  #texts({ name, about }) {
    const area = el("textarea", {
      rows: 2,
      class: "mono",
      placeholder: (this.usual[name] ?? []).map(escaped).join("\n"),
    });
    area.value = (this.settings.sampling[name] ?? []).map(escaped).join("\n");
    area.addEventListener("input", () => {
      const texts = lines(area.value).map(unescaped);
      if (texts.length) this.settings.sampling[name] = texts;
      else delete this.settings.sampling[name];
    });
    return el("label", {}, `${about} One a line.`, area, el("small", {}, name));
  }
}

const escaped = (text) => JSON.stringify(text).slice(1, -1);

function unescaped(line) {
  try {
    return JSON.parse(`"${line.replace(/(?<!\\)"/g, '\\"')}"`);
  } catch {
    return line;
  }
}

function fault(check, text) {
  try {
    check(text);
    return "";
  } catch (error) {
    return error.message;
  }
}

function group(title, ...fields) {
  return el("fieldset", {}, title ? el("legend", {}, title) : null, ...fields);
}
