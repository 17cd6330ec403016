// The blocks of a Markdown text, as models write it. A list of plain objects, no HTML. Their texts
// are pieces, which know where they stand.
import { cut, joined, piece, placeOf, trimmed, without } from "./pieces.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^\s`]{0,40})[^`]{0,200}$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/d;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const QUOTES = /(?<![^\n]) {0,3}> ?/g;
const BAR = /(?<!\\)\|/g;
const OUTER_BARS = /^\||(?<!\\)\|$/g;
const ESCAPES = /\\(?=\|)/g;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])([ \t]+|$)(\[[ xX]\][ \t])?/;
const INTERRUPTS = /^ *(?:[-*+]|1[.)])[ \t]+\S/; // items that begin right after a paragraph
const DELIMITERS = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const MATH = /^ {0,3}(\$\$|\\\[)/;
const UNRIPE = /^[ \t]*(?:\d{1,9}[.)]?|[-*+#>|`~]{1,6})[ \t]*$/;
const MAX_MARK = 24; // characters of a line that is looked at for that
const MAX_DEPTH = 12; // of lists and quotes within each other; deeper ones are text
const MAX_TOGETHER = 500; // items of a list, or rows of a table; more begin another one
const MAX_LINE = 2000; // characters of a line that patterns look at

/** Leave out a last line that may still become the mark of an item, a heading or a fence. */
export function ripe(text) {
  const from = text.lastIndexOf("\n") + 1;
  return text.length - from < MAX_MARK && UNRIPE.test(text.slice(from))
    ? text.slice(0, from)
    : text;
}

/** Parse a text that begins at `from` of the whole. Each block stands from `start` up to `end`. */
export function blocks(text, from = 0) {
  return new Parser(piece(text, from), 0).blocks();
}

class Parser {
  constructor(source, depth) {
    this.source = source;
    this.text = source.text;
    this.depth = depth;
    this.at = 0; // where the line begins
  }

  blocks() {
    const found = [];
    while (this.at < this.text.length) {
      const start = this.at;
      const block = this.block();
      if (block) found.push({ ...block, start, end: this.at });
    }
    return found;
  }

  get over() {
    return this.at >= this.text.length;
  }

  /** The end of the line that begins at `at`, without its newline. */
  ending(at) {
    const end = this.text.indexOf("\n", at);
    return end < 0 ? this.text.length : end;
  }

  head() {
    return this.text.slice(this.at, Math.min(this.ending(this.at), this.at + MAX_LINE));
  }

  next() {
    this.at = Math.min(this.ending(this.at) + 1, this.text.length);
  }

  block() {
    const line = this.head();
    if (!line.trim()) return this.next();
    const fence = FENCE.exec(line);
    if (fence) return this.fenced(fence);
    if (MATH.test(line)) return this.math(line);
    const heading = HEADING.exec(line);
    if (heading) {
      const [from, to] = heading.indices[2] ?? [0, 0];
      const text = cut(this.source, this.at + from, this.at + to);
      this.next();
      return { type: "heading", level: heading[1].length, ...text };
    }
    if (RULE.test(line)) {
      this.next();
      return { type: "rule" };
    }
    if (this.depth < MAX_DEPTH) {
      if (QUOTE.test(line)) return this.quote();
      if (ITEM.test(line)) return this.list();
    }
    return this.tableHere(line) ? this.table() : this.paragraph();
  }

  fenced([line, marks, language]) {
    const indent = line.length - line.trimStart().length;
    const end = new RegExp(`^ {0,3}\\${marks[0]}{${marks.length},}[ \\t]*$`);
    this.next();
    const from = this.at;
    while (!this.over) {
      if (end.test(this.head())) {
        const text = cut(this.source, from, Math.max(this.at - 1, from));
        this.next();
        return { type: "code", language, ...undented(text, indent), closed: true };
      }
      this.next();
    }
    return { type: "code", language, ...undented(cut(this.source, from), indent), closed: false };
  }

  math(line) {
    const close = line.trimStart().startsWith("$$") ? "$$" : "\\]";
    const from = this.at;
    const opened = this.text.indexOf(close === "$$" ? "$$" : "\\[", from) + 2;
    const closed = this.text.indexOf(close, opened);
    if (closed < 0) return this.paragraph();
    this.at = closed;
    this.next();
    return { type: "math", ...trimmed(cut(this.source, from, this.at)) };
  }

  quote() {
    const from = this.at;
    let end = from;
    while (!this.over && QUOTE.test(this.head())) {
      end = this.ending(this.at);
      this.next();
    }
    return { type: "quote", blocks: this.within(without(cut(this.source, from, end), QUOTES)) };
  }

  /** The blocks of a piece within this one. */
  within(source) {
    return new Parser(source, this.depth + 1).blocks();
  }

  list() {
    const first = ITEM.exec(this.head());
    const ordered = /\d/.test(first[2]);
    const items = [];
    while (!this.over && items.length < MAX_TOGETHER) {
      const match = ITEM.exec(this.head());
      if (!match || match[1].length > first[1].length + 3 || /\d/.test(match[2]) !== ordered) break;
      if (match[1].length < first[1].length || (items.length && RULE.test(this.head()))) break;
      items.push(this.item(match));
    }
    return { type: "list", ordered, from: ordered ? parseInt(first[2], 10) : 1, items };
  }

  /** Read an item: its line, and lines that are indented or continue its paragraph. */
  item([marker, , , , task]) {
    const start = this.at;
    const width = marker.length - (task?.length ?? 0);
    const lines = [this.rest(marker.length)];
    this.next();
    let blank = false;
    while (!this.over) {
      const line = this.head();
      const indent = line.length - line.trimStart().length;
      const within = indent >= Math.min(width, 4) || (indent >= 2 && !blank);
      if (!line.trim()) {
        if (!this.goesOn(width)) break;
        blank = true;
      } else if (!within && (blank || ITEM.test(line) || starts(line))) break;
      lines.push(cut(this.source, this.at - 1, this.at)); // the end of the line before
      lines.push(this.rest(Math.min(indent, width)));
      this.next();
    }
    const checked = task ? /x/i.test(task) : null;
    return { key: this.key(start), checked, blocks: this.within(joined(lines)) };
  }

  /** The line here without its first characters. */
  rest(from) {
    return cut(this.source, this.at + from, this.ending(this.at));
  }

  /** What stands from `start` up to here, and where: the same key is drawn the same. */
  key(start) {
    return `${placeOf(this.source, start)} ${this.text.slice(start, this.at)}`;
  }

  /** Whether what follows the blank lines here still belongs to an item; drops them if not. */
  goesOn(width) {
    let at = this.at;
    while (at < this.text.length && !this.text.slice(at, this.ending(at)).trim()) {
      at = this.ending(at) + 1;
    }
    const line = this.text.slice(at, Math.min(this.ending(at), at + MAX_LINE));
    const indent = line.length - line.trimStart().length;
    if (at < this.text.length && indent >= Math.min(width, 4)) return true;
    if (at < this.text.length && indent >= 2 && !ITEM.test(line)) return true;
    this.at = Math.min(at, this.text.length);
    return false;
  }

  tableHere(line) {
    if (!line.includes("|")) return false;
    const under = this.ending(this.at) + 1;
    const next = this.text.slice(under, Math.min(this.ending(under), under + MAX_LINE));
    return DELIMITERS.test(next) && cells(piece(next)).length === cells(piece(line)).length;
  }

  table() {
    const head = cells(this.rest(0));
    this.next();
    const align = cells(this.rest(0)).map((cell) => alignment(cell.text));
    this.next();
    const rows = [];
    while (!this.over && this.head().trim() && !starts(this.head(), false)) {
      if (rows.length === MAX_TOGETHER) break;
      const start = this.at;
      const row = cells(this.rest(0));
      this.next();
      rows.push({ key: this.key(start), cells: head.map((_, at) => row[at] ?? piece("")) });
    }
    return { type: "table", head, align, rows };
  }

  paragraph() {
    const from = this.at;
    do this.next();
    while (
      !this.over &&
      this.head().trim() &&
      !starts(this.head()) &&
      !this.tableHere(this.head())
    );
    return { type: "paragraph", ...trimmed(cut(this.source, from, this.at)) };
  }
}

/** Whether a line begins a block of its own, even right after a paragraph. */
function starts(line, items = true) {
  return (
    FENCE.test(line) ||
    HEADING.test(line) ||
    RULE.test(line) ||
    QUOTE.test(line) ||
    MATH.test(line) ||
    (items && INTERRUPTS.test(line))
  );
}

function undented(source, indent) {
  return indent ? without(source, new RegExp(`(?<![^\\n]) {1,${indent}}`, "g")) : source;
}

function cells(line) {
  const inner = without(trimmed(line), OUTER_BARS);
  const found = [];
  let at = 0;
  for (const { index } of inner.text.matchAll(BAR)) {
    found.push(cut(inner, at, index));
    at = index + 1;
  }
  return [...found, cut(inner, at)].map((cell) => without(trimmed(cell), ESCAPES));
}

function alignment(cell) {
  if (!cell.endsWith(":")) return "start";
  return cell.startsWith(":") ? "center" : "end";
}
