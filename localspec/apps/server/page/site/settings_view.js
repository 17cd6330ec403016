// The settings of a conversation: its system prompt, sampling, form, tools, thought and drafts.
import { json } from "./api.js";
import { el, find, replace } from "./dom.js";
import { DEFAULTS, schema, settingsOf, tools } from "./request.js";

const lines = (text) => text.split("\n").filter(Boolean);

export class SettingsView {
  /** `app` knows the conversation, and the parameters that the server samples by. */
  constructor(app) {
    this.app = app;
    this.dialog = find("#settings");
    this.fields = find("#settings-fields");
    find("#open-settings").addEventListener("click", () => this.open());
    find("#settings-reset").addEventListener("click", () => this.#reset());
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

  #show() {
    replace(
      this.fields,
      this.#area("system", "System prompt", { rows: 4 }),
      group(
        "Length and end",
        this.#number("maxTokens", "Most tokens", { min: 1 }),
        this.#number("seed", "Seed", { min: 0 }),
        this.#list("stop", "Stop texts, one a line"),
        this.#list("banned", "Banned strings, one a line"),
      ),
      group(
        "Thought",
        this.#choice("think", "Thinking", { "": "as the model does", on: "on", off: "off" }),
        this.#number("budget", "Most tokens of thought", { min: 0 }),
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
      group(
        "Drafts",
        this.#check("drafts", "Draft tokens ahead"),
        this.#text("proposer", "Only these proposers", "all that the model has"),
        this.#number("depth", "Most tokens of a draft", { min: 0 }),
        this.#number("alternatives", "Likely tokens to report at each place", { min: 0, max: 20 }),
      ),
      group(
        "Sampling",
        ...this.app.about.parameters.map((parameter) => this.#parameter(parameter)),
        ...this.app.about.lists.map((list) => this.#texts(list)),
      ),
    );
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

  #parameter({ name, about, low, high, whole }) {
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
    return el("label", { title: about }, name, input, el("small", {}, about));
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
    return el("label", { title: about }, name, area, el("small", {}, `${about} One a line.`));
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
  return el("fieldset", {}, el("legend", {}, title), ...fields);
}
