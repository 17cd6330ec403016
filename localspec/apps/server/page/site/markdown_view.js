// A Markdown text that grows: blocks that are complete stay, the last one is drawn again.
import { CodeView } from "./code_view.js";
import { el, replace, shown } from "./dom.js";
import { inline } from "./inline.js";
import { GrowingText } from "./long_text.js";
import { blocks, ripe } from "./markdown.js";

const MAX_INLINE = 20_000; // characters of a paragraph; a longer one stays plain
const TAGS = { strong: "strong", emphasis: "em", deleted: "del" };

export class MarkdownView {
  #settled = 0; // characters in blocks that are complete
  #last = null; // the view of the block that may grow

  constructor(element) {
    this.element = element;
  }

  /** Draw a text that begins as the one before did, and may grow unless it is final. */
  update(text, final) {
    const tail = text.slice(this.#settled);
    const found = blocks(final ? tail : ripe(tail));
    const base = this.#settled;
    for (const [at, block] of found.entries()) {
      this.#draw(block);
      if (at < found.length - 1) {
        this.#settled = base + found[at + 1].start;
        this.#last = null;
      }
    }
  }

  #draw(block) {
    const kind = `${block.type} ${block.level ?? block.ordered ?? ""}`;
    if (this.#last?.kind !== kind) {
      this.#last?.element.remove();
      this.#last = { kind, ...viewOf(block) };
      this.element.append(this.#last.element);
    }
    this.#last.update(block);
  }
}

/** Make what shows a block: its element, and how that is brought up to date. */
function viewOf(block) {
  switch (block.type) {
    case "code": {
      const view = new CodeView();
      return { element: view.element, update: (next) => view.update(next) };
    }
    case "list":
      return listView(block);
    case "table":
      return tableView();
    case "paragraph":
      return paragraphView();
    case "quote":
      return nested("blockquote");
    case "heading":
      return simple(`h${Math.min(block.level + 2, 6)}`, (next) => inlines(next.text));
    case "math":
      return simple("div", (next) => shown(next.text), { class: "math" });
    default:
      return { element: el("hr"), update: () => {} };
  }
}

function simple(tag, draw, properties = {}) {
  const element = el(tag, { dir: "auto", ...properties });
  return { element, update: (block) => replace(element, ...draw(block)) };
}

function paragraphView() {
  const element = el("p", { dir: "auto" });
  let long = null;
  let length = 0;
  const update = ({ text }) => {
    if (text.length <= MAX_INLINE) return replace(element, ...inlines(text));
    if (!long) {
      long = new GrowingText(replace(element));
      length = 0;
    }
    long.add(text.slice(length));
    length = text.length;
  };
  return { element, update };
}

function nested(tag) {
  const element = el(tag);
  return { element, update: (block) => replace(element, ...block.blocks.map(drawn)) };
}

function listView({ ordered, from }) {
  const element = el(ordered ? "ol" : "ul", { start: ordered && from !== 1 ? from : null });
  const sources = [];
  const update = ({ items }) => reconcile(element, sources, items, (item) => item.source, itemOf);
  return { element, update };
}

function itemOf({ checked, blocks: within }) {
  const children = within.map((block, at) =>
    block.type === "paragraph" && at === 0
      ? el("span", { dir: "auto" }, ...inlines(block.text))
      : drawn(block),
  );
  if (checked === null) return el("li", {}, ...children);
  const box = el("input", {
    type: "checkbox",
    disabled: true,
    checked,
    "aria-label": checked ? "done" : "to do",
  });
  return el("li", { class: "task" }, box, ...children);
}

function tableView() {
  const head = el("tr");
  const body = el("tbody");
  const table = el("table", {}, el("thead", {}, head), body);
  const rows = [];
  const update = (block) => {
    const cell = (tag) => (text, at) =>
      el(tag, { class: `to-${block.align[at] ?? "start"}`, dir: "auto" }, ...inlines(text));
    replace(head, ...block.head.map(cell("th")));
    reconcile(
      body,
      rows,
      block.rows,
      (row) => row.join("|"),
      (row) => el("tr", {}, ...row.map(cell("td"))),
    );
  };
  const element = el(
    "div",
    { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
    table,
  );
  return { element, update };
}

/** Bring children up to date, of which those whose source is as before stay. */
function reconcile(element, sources, items, sourceOf, make) {
  items.forEach((item, at) => {
    const source = sourceOf(item);
    if (sources[at] === source) return;
    sources[at] = source;
    const child = make(item);
    if (element.children[at]) element.children[at].replaceWith(child);
    else element.append(child);
  });
  sources.length = items.length;
  while (element.children.length > items.length) element.lastChild.remove();
}

function drawn(block) {
  const view = viewOf(block);
  view.update(block);
  return view.element;
}

function inlines(text) {
  return text.length > MAX_INLINE ? shown(text) : inline(text).flatMap(inlineNode);
}

function inlineNode(node) {
  switch (node.type) {
    case "text":
      return shown(node.text);
    case "break":
      return [el("br")];
    case "code":
      return [el("code", { translate: "no" }, ...shown(node.text))];
    case "math":
      return [el("span", { class: "math" }, ...shown(node.text))];
    case "link":
      return [linkTo(node)];
    default:
      return [el(TAGS[node.type], {}, ...node.children.flatMap(inlineNode))];
  }
}

function linkTo({ href, children }) {
  const properties = { href, title: href, target: "_blank", rel: "noopener noreferrer nofollow" };
  return el("a", properties, ...children.flatMap(inlineNode));
}
