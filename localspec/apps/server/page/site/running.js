// Answers under way, copied to the browser's database so that a reload does not take them away.
const STORE = "running";
const EVERY_MS = 1000; // between two copies of an answer
const GONE_MS = 5000; // without a new copy, after which the tab that wrote it is taken to be closed
const TAB = "localspec.tab";

/** A name of this tab that a reload leaves as it is. */
function tabName() {
  const name = sessionStorage.getItem(TAB) ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
  sessionStorage.setItem(TAB, name);
  return name;
}

export class RunningAnswers {
  #tab = tabName();
  #copied = new Map(); // when an answer was copied, by its identity

  constructor(store) {
    this.store = store;
  }

  /** Copy an answer, at most once a second; `lens` is what it has of it until now. */
  async copy(conversation, node, lens) {
    const now = performance.now();
    if (now - (this.#copied.get(node.id) ?? -EVERY_MS) < EVERY_MS) return;
    this.#copied.set(node.id, now);
    const entry = {
      id: node.id,
      conversation: conversation.id,
      tab: this.#tab,
      at: Date.now(),
      node: { ...node, lens, calls: node.calls.filter(Boolean) },
    };
    await this.store.put(STORE, entry).catch(() => {}); // a full disk is told when the answer ends
  }

  async forget({ id }) {
    this.#copied.delete(id);
    await this.store.remove(STORE, id).catch(() => {});
  }

  /** Put what came of answers whose tab was reloaded or closed into their conversations. */
  async recover(conversations) {
    for (const { id, conversation, tab, at, node } of await this.store.all(STORE)) {
      if (tab !== this.#tab && Date.now() - at < GONE_MS) continue; // it is written elsewhere
      const kept = conversations.get(conversation);
      const cut = kept?.nodes[id];
      if (cut && !cut.finish && !cut.error) {
        Object.assign(cut, node, { finish: "reload" });
        await this.store.put("conversations", kept);
      }
      await this.store.remove(STORE, id);
    }
  }
}
