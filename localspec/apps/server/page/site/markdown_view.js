// A Markdown text that grows: blocks that are complete stay, the last one is drawn again.
import { CodeView } from "./code_view.js";
import { el, replace } from "./dom.js";
import { inline } from "./inline.js";
import { GrowingText } from "./long_text.js";
import { blocks, ripe } from "./markdown.js";
import { cut } from "./pieces.js";

const PART = 1000; // characters of a paragraph that are drawn together; earlier parts stay
const MAX_INLINE = 10_000; // characters of a paragraph; a longer one stays plain
const TAGS = { strong: "strong", emphasis: "em", deleted: "del" };

export class MarkdownView {
  #settled = 0; // characters in blocks that are complete
  #last = null; // the view of the block that may grow

  /** `ink` writes the texts. */
  constructor(element, ink) {
    this.element = element;
    this.drawing = new Drawing(ink);
  }

  /** Draw a text that begins as the one before did, and may grow unless it is final. */
  update(text, final) {
    const base = this.#settled;
    const tail = text.slice(base);
    const found = blocks(final ? tail : ripe(tail), base);
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
      this.#last = { kind, ...this.drawing.viewOf(block) };
      this.element.append(this.#last.element);
    }
    this.#last.update(block);
  }
}

/** Makes what shows a block: its element, and how that is brought up to date. */
class Drawing {
  constructor(ink) {
    this.ink = ink;
  }

  viewOf(block) {
    switch (block.type) {
      case "code": {
        const view = new CodeView(this.ink);
        return { element: view.element, update: (next) => view.update(next) };
      }
      case "list":
        return this.list(block);
      case "table":
        return this.table();
      case "paragraph":
        return this.paragraph();
      case "quote":
        return simple("blockquote", ({ blocks: within }) => within.map((each) => this.drawn(each)));
      case "heading":
        return simple(`h${Math.min(block.level + 2, 6)}`, (next) => this.inlines(next), AUTO);
      case "math":
        return simple("div", (next) => this.ink.write(next), { class: "math", ...AUTO });
      default:
        return { element: el("hr"), update: () => {} };
    }
  }

  drawn(block) {
    const view = this.viewOf(block);
    view.update(block);
    return view.element;
  }

  paragraph() {
    const element = el("p", AUTO);
    const keys = [];
    let long = null;
    let length = 0;
    const update = (block) => {
      if (block.text.length <= PART) {
        keys.length = 0;
        return replace(element, ...this.inlines(block));
      }
      if (block.text.length <= MAX_INLINE) {
        if (!keys.length) replace(element);
        return reconcile(element, keys, partsOf(inline(block.text)), (part) =>
          el("span", {}, ...part.nodes.flatMap((node) => this.inlineNode(node, block))),
        );
      }
      if (!long) {
        long = new GrowingText(replace(element));
        length = 0;
      }
      const more = cut(block, length);
      long.add(more.text, (text, at) => this.ink.write(cut(more, at, at + text.length)));
      length = block.text.length;
    };
    return { element, update };
  }

  list({ ordered, from }) {
    const element = el(ordered ? "ol" : "ul", { start: ordered && from !== 1 ? from : null });
    const keys = [];
    const update = ({ items }) => reconcile(element, keys, items, (item) => this.item(item));
    return { element, update };
  }

  item({ checked, blocks: within }) {
    const children = within.map((block, at) =>
      block.type === "paragraph" && at === 0
        ? el("span", AUTO, ...this.inlines(block))
        : this.drawn(block),
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

  table() {
    const head = el("tr");
    const body = el("tbody");
    const keys = [];
    const update = (block) => {
      const cell = (tag) => (text, at) =>
        el(tag, { class: `to-${block.align[at] ?? "start"}`, ...AUTO }, ...this.inlines(text));
      replace(head, ...block.head.map(cell("th")));
      reconcile(body, keys, block.rows, (row) => el("tr", {}, ...row.cells.map(cell("td"))));
    };
    const element = el(
      "div",
      { class: "table", tabindex: "0", role: "group", "aria-label": "Table" },
      el("table", {}, el("thead", {}, head), body),
    );
    return { element, update };
  }

  inlines(piece) {
    if (piece.text.length > MAX_INLINE) return this.ink.write(piece);
    return inline(piece.text).flatMap((node) => this.inlineNode(node, piece));
  }

  /** Make the nodes of a text or an element within a piece. */
  inlineNode(node, piece) {
    const written = () => {
      const { places } = cut(piece, node.at, node.at + node.text.length);
      return this.ink.write({ text: node.text, places });
    };
    const children = () => node.children.flatMap((child) => this.inlineNode(child, piece));
    switch (node.type) {
      case "text":
        return written();
      case "break":
        return [el("br")];
      case "code":
        return [el("code", { translate: "no" }, ...written())];
      case "math":
        return [el("span", { class: "math" }, ...written())];
      case "link":
        return [el("a", { href: node.href, title: node.href, ...ELSEWHERE }, ...children())];
      default:
        return [el(TAGS[node.type], {}, ...children())];
    }
  }
}

const AUTO = { dir: "auto" };
const ELSEWHERE = { target: "_blank", rel: "noopener noreferrer nofollow" };

function simple(tag, draw, properties = {}) {
  const element = el(tag, properties);
  return { element, update: (block) => replace(element, ...draw(block)) };
}

/** Divide what is in a paragraph into parts, of which those before the last stay as it grows. */
function partsOf(nodes) {
  const parts = [];
  let size = PART;
  for (const node of nodes.flatMap((node) => (node.type === "text" ? words(node) : [node]))) {
    if (size >= PART) {
      parts.push({ key: "", nodes: [] });
      size = 0;
    }
    const part = parts.at(-1);
    part.nodes.push(node);
    part.key += JSON.stringify(node);
    size += node.text?.length ?? 0;
  }
  return parts;
}

/** Cut a long text after words. */
function words({ text, at }) {
  const found = [];
  for (let from = 0; from < text.length;) {
    const space = text.indexOf(" ", from + PART);
    const to = space < 0 ? text.length : space + 1;
    found.push({ type: "text", text: text.slice(from, to), at: at + from });
    from = to;
  }
  return found;
}

/** Bring children up to date, of which those whose key is as before stay. */
function reconcile(element, keys, items, make) {
  items.forEach((item, at) => {
    if (keys[at] === item.key) return;
    keys[at] = item.key;
    const child = make(item);
    if (element.children[at]) element.children[at].replaceWith(child);
    else element.append(child);
  });
  keys.length = items.length;
  while (element.children.length > items.length) element.lastChild.remove();
}
