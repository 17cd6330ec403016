// A conversation as a tree: each message has a parent, and the newest leaf is what one reads.
export const FORMAT = "localspec conversations 1";
const MAX_TITLE = 60;

const newId = () => crypto.getRandomValues(new Uint32Array(3)).join("-");

export function conversation(settings, now = Date.now()) {
  return { id: newId(), title: "", created: now, changed: now, settings, nodes: {}, leaf: null };
}

/** The messages from the first to the leaf. */
export function path(conversation, leaf = conversation.leaf) {
  const nodes = [];
  const seen = new Set();
  for (
    let id = leaf;
    id && conversation.nodes[id] && !seen.has(id);
    id = conversation.nodes[id].parent
  ) {
    nodes.unshift(conversation.nodes[id]);
    seen.add(id);
  }
  return nodes;
}

/** Add a message after another one, or the first where that is null; it becomes the leaf. */
export function add(conversation, parent, message, now = Date.now()) {
  const node = { id: newId(), parent, at: now, ...message };
  conversation.nodes[node.id] = node;
  conversation.leaf = node.id;
  conversation.changed = now;
  conversation.title ||= titleOf(node);
  return node;
}

function titleOf({ role, text, files = [] }) {
  if (role !== "user") return "";
  const words = (text.trim() || (files[0]?.name ?? "")).replace(/\s+/g, " ");
  return words.length > MAX_TITLE ? `${words.slice(0, MAX_TITLE - 1)}…` : words;
}

/** The messages that stand at the same place, the oldest first. */
export function siblings(conversation, id) {
  const { parent } = conversation.nodes[id];
  return Object.values(conversation.nodes)
    .filter((node) => node.parent === parent)
    .sort((one, other) => one.at - other.at)
    .map((node) => node.id);
}

/** Read on from a message: at the newest leaf after it. */
export function select(conversation, id) {
  const children = Object.values(conversation.nodes).filter((node) => node.parent === id);
  if (!children.length) {
    conversation.leaf = id;
    return;
  }
  select(conversation, children.sort((one, other) => other.at - one.at)[0].id);
}

/** A new conversation with the messages up to one. */
export function branch(source, id, now = Date.now()) {
  const copy = conversation(structuredClone(source.settings), now);
  for (const node of path(source, id)) copy.nodes[node.id] = structuredClone(node);
  return Object.assign(copy, { title: source.title, leaf: id });
}

/** Whether all words occur in a conversation, whatever their case. */
export function matches(conversation, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return true;
  const texts = Object.values(conversation.nodes).map((node) => node.text ?? "");
  const all = [conversation.title, ...texts].join("\n").toLowerCase();
  return wanted.every((word) => all.includes(word));
}

export function exported(conversations) {
  return JSON.stringify({ format: FORMAT, conversations }, null, 1);
}

const ROLES = ["user", "assistant", "tool"];
const text = (value) => (typeof value === "string" ? value : "");

/** Read a file of conversations; throws an Error that says what is wrong with it. */
export function imported(file) {
  let data;
  try {
    data = JSON.parse(file);
  } catch {
    throw new Error("this file is no JSON: choose one that Export wrote");
  }
  if (data?.format !== FORMAT || !Array.isArray(data.conversations)) {
    throw new Error(`this file is not of the format "${FORMAT}": choose one that Export wrote`);
  }
  return data.conversations.map(checked);
}

/** A message as it may be shown: what is not of its kind is left out. */
function message(node) {
  const list = (value) =>
    Array.isArray(value) ? value.filter((entry) => entry && typeof entry === "object") : [];
  const lens =
    node.lens &&
    ["rounds", "said", "thought"].every(
      (name) =>
        Array.isArray(node.lens[name]) && list(node.lens[name]).length === node.lens[name].length,
    );
  return {
    ...node,
    parent: text(node.parent) || null,
    text: text(node.text),
    thought: text(node.thought),
    edit: text(node.edit),
    files: list(node.files),
    calls: list(node.calls),
    lens: lens ? node.lens : null,
    name: text(node.name),
    model: text(node.model),
    error: text(node.error),
    notices: [],
    figures: numbers(node.figures ?? {}),
  };
}

/** Keep the numbers within an object, and the objects that hold some. */
function numbers(source) {
  if (typeof source !== "object" || Array.isArray(source)) return {};
  return Object.fromEntries(
    Object.entries(source).flatMap(([name, value]) =>
      typeof value === "number"
        ? [[name, value]]
        : value && typeof value === "object"
          ? [[name, numbers(value)]]
          : [],
    ),
  );
}

function checked(source) {
  const nodes = Object.fromEntries(
    Object.values(source?.nodes ?? {})
      .filter((node) => ROLES.includes(node?.role) && text(node.id))
      .map((node) => [node.id, message(node)]),
  );
  const leaf = nodes[source?.leaf] ? source.leaf : (Object.keys(nodes).at(-1) ?? null);
  const made = conversation(source?.settings ?? {}, Number(source?.created) || Date.now());
  return { ...made, id: text(source?.id) || made.id, title: text(source?.title), nodes, leaf };
}
