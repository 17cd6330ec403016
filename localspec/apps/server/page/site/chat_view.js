// The conversation that one reads, and what one does with it: ask, stop, retry, edit, branch.
import { Ahead } from "./ahead.js";
import { isCut } from "./answer.js";
import { Composer } from "./composer.js";
import { find, replace } from "./dom.js";
import { Hint } from "./lens_view.js";
import { messageView } from "./message_view.js";
import { Painter } from "./painter.js";
import { requestFor, settingsOf } from "./request.js";
import { Run } from "./run.js";
import { prefer, preference } from "./store.js";
import { add, branch, path, select } from "./tree.js";

const NEAR_END = 60; // pixels from the end, within which new text is followed

export class ChatView {
  conversation = null;
  lens = preference("lens", true);
  hint = new Hint();
  #runs = new Map(); // answers under way, by conversation
  #views = new Map(); // of the messages shown, by their identity
  #follows = true;
  #ahead = new Ahead();

  /** `app` keeps conversations, names the model, tells the user and screen readers. */
  constructor(app) {
    this.app = app;
    this.transcript = find("#transcript");
    this.list = find("#messages");
    this.composer = new Composer(find("#composer"), this);
    this.painter = new Painter(() => this.#paint());
    this.end = find("#to-end");
    this.transcript.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.end.addEventListener("click", () => this.#toEnd(true));
    const toggle = find("#lens");
    toggle.setAttribute("aria-pressed", String(this.lens));
    toggle.addEventListener("click", () => this.toggleLens());
  }

  get #run() {
    return this.conversation && this.#runs.get(this.conversation.id);
  }

  open(conversation) {
    this.conversation = conversation;
    this.composer.clear();
    this.show();
    this.#toEnd(true);
  }

  /** Show the messages from the first to the leaf; views that are still right stay. */
  show() {
    const conversation = this.conversation;
    const nodes = path(conversation);
    const views = new Map(nodes.map((node) => [node.id, messageView(node, conversation, this)]));
    this.#views = views;
    replace(this.list, ...[...views.values()].map((view) => view.element));
    find("#welcome").hidden = nodes.length > 0;
    this.composer.busy = Boolean(this.#run);
    if (this.#run) this.painter.want();
  }

  views() {
    return this.#views.values();
  }

  toggleLens() {
    this.lens = !this.lens;
    prefer("lens", this.lens);
    find("#lens").setAttribute("aria-pressed", String(this.lens));
    for (const { answer } of this.views()) answer?.toggle();
    this.#toEnd();
  }

  /** A message is being written: have the model read it, unless it answers another. */
  writing(message) {
    const { conversation, app } = this;
    if (this.#run) return;
    const said = path(conversation).map(({ text }) => text);
    const texts = [...said, message.text, message.edit, ...message.files.map(({ data }) => data)];
    const letters = texts.reduce((sum, text) => sum + text.length, 0);
    const request = () => requestFor(conversation, app.models.chosen, conversation.leaf, message);
    this.#ahead.note(conversation.leaf, letters, request);
  }

  submit(message) {
    this.#ahead.forget();
    add(this.conversation, this.conversation.leaf, { role: "user", ...message });
    this.ask();
  }

  resend(node, text) {
    if (this.#run) return this.tell("an answer is under way: stop it first");
    const { role, files, edit } = node;
    add(this.conversation, node.parent, { role, text, files, edit });
    this.ask();
  }

  retry(node) {
    if (this.#run) return this.tell("an answer is under way: stop it first");
    this.conversation.leaf = node.parent;
    this.ask();
  }

  results(node, texts) {
    let parent = node.id;
    node.calls.forEach(({ id, name }, at) => {
      parent = add(this.conversation, parent, {
        role: "tool",
        callId: id,
        name,
        text: texts[at],
      }).id;
    });
    this.ask();
  }

  /** Whether the results of an answer's calls are to be typed: nothing follows it yet. */
  awaits(node) {
    return this.conversation.leaf === node.id && !this.#run;
  }

  choose(id) {
    select(this.conversation, id);
    this.app.keep(this.conversation);
    this.show();
  }

  branch(node) {
    this.app.begin(branch(this.conversation, node.id));
  }

  editLast() {
    const last = path(this.conversation).findLast((node) => node.role === "user");
    const buttons = last && this.#views.get(last.id)?.element.querySelectorAll(".actions button");
    [...(buttons ?? [])].find((each) => each.textContent === "Edit")?.click();
  }

  stop() {
    this.#run?.stop();
  }

  /** End the answer of a conversation that is deleted. */
  forget(id) {
    this.#runs.get(id)?.stop();
  }

  /** Keep a conversation, unless it was deleted while its answer came. */
  async #keep(conversation) {
    if (this.app.conversations.has(conversation.id)) await this.app.keep(conversation);
  }

  sees() {
    return this.app.models.sees();
  }

  tell(words) {
    this.app.tell(words);
  }

  /** Have the last answer go on from where it ended. */
  goOn(node) {
    if (this.#run) return this.tell("an answer is under way: stop it first");
    this.composer.area.focus();
    this.ask(node);
  }

  /** Whether an answer may go on: nothing follows it, and no form would begin anew within it. */
  mayGoOn(node) {
    const { schema } = settingsOf(this.conversation.settings);
    return this.awaits(node) && isCut(node) && !schema.trim();
  }

  /** Ask for the answer to the leaf, or for the rest of it. */
  async ask(begun = null) {
    const conversation = this.conversation;
    const hooks = {
      drawn: () => conversation === this.conversation && this.painter.want(),
      announcer: this.app.announcer,
      copy: (node, lens) => this.app.running.copy(conversation, node, lens),
    };
    const run = new Run(conversation, this.app.models.chosen, hooks, begun);
    hooks.copy(run.node, run.answer.lens.record);
    this.#runs.set(conversation.id, run);
    this.#keep(conversation);
    this.show();
    this.#toEnd(true);
    try {
      await run.go();
    } finally {
      this.#runs.delete(conversation.id);
      if (conversation === this.conversation) this.#ended(run);
      await this.#keep(conversation);
      await this.app.running.forget(run.node);
    }
  }

  #ended(run) {
    this.composer.busy = false;
    this.#views.get(run.node.id)?.answer.end();
    this.#toEnd();
    this.app.models.refresh();
  }

  #paint() {
    const run = this.#run;
    const view = run && this.#views.get(run.node.id);
    if (!view) return;
    view.answer.draw(run.answer, run.words());
    this.#toEnd();
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.transcript;
    this.#follows = scrollHeight - scrollTop - clientHeight < NEAR_END;
    this.end.hidden = this.#follows;
  }

  #toEnd(always = false) {
    if (always) this.#follows = true;
    if (this.#follows) this.transcript.scrollTop = this.transcript.scrollHeight;
  }
}
