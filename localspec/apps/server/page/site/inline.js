// The Markdown within a paragraph: emphasis, code, links. A tree of plain objects, no HTML. Each text
// has its place: `at` is where it begins in the paragraph.
const PLAIN = /[^\\`*_~[\]!<&hH\n$]+/y;
const URL_HERE = /https?:\/\/[^\s<>"`\\^{|}]+/iy;
const BRACKETED = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/iy;
const ENTITY = /&(amp|lt|gt|quot|apos|nbsp|#39);/y;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", "#39": "'" };
const MATH = /\\\(.{1,2000}?\\\)|\$\$.{1,2000}?\$\$/sy;
const ESCAPED = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}]/u;
const SAFE = /^(?:https?:\/\/|mailto:)/i;
const MAX_ADDRESS = 2000;
const MAX_OPEN = 200; // runs that wait for their end; of more, the oldest stay text

/** Return the address if a browser may go there: http, https or mailto; null otherwise. */
export function address(text) {
  const trimmed = text.trim();
  if (!SAFE.test(trimmed)) return null;
  try {
    return new URL(trimmed).href;
  } catch {
    return null;
  }
}

/** Read the Markdown of a paragraph: `{type, text, at}` or `{type, children}` in a list. */
export function inline(text) {
  return new Scanner(text).nodes();
}

class Scanner {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.out = [];
    this.brackets = []; // places in `out` of `[` and `![`
    this.missing = new Set(); // lengths of backtick runs that have no other after here
  }

  nodes() {
    while (this.at < this.text.length) this.step();
    return emphasised(this.out);
  }

  step() {
    const match = this.match(PLAIN);
    if (match) return this.add(match[0], match.index);
    const sign = this.text[this.at];
    if (sign === "`") return this.code();
    if (sign === "*" || sign === "_" || sign === "~") return this.run(sign);
    if (sign === "[") return this.open("[");
    if (sign === "]") return this.close();
    if (sign === "\n") return this.push({ type: "break" }, 1);
    return this.special(sign);
  }

  special(sign) {
    if (sign === "!" && this.text[this.at + 1] === "[") return this.open("![");
    const math = sign === "\\" || sign === "$" ? this.match(MATH) : null;
    if (math) return this.push({ type: "math", text: math[0], at: math.index });
    if (sign === "\\" && ESCAPED.test(this.text[this.at + 1] ?? "")) {
      this.at += 1;
      return this.literal();
    }
    const entity = sign === "&" ? this.match(ENTITY) : null;
    if (entity) return this.add(ENTITIES[entity[1]], entity.index);
    const url = sign === "<" ? this.match(BRACKETED) : null;
    if (url) return this.push(link(url[1], [plain(url[1], url.index + 1)]));
    if (sign === "h" || sign === "H") return this.bare();
    return this.literal();
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match) this.at = pattern.lastIndex;
    return match;
  }

  push(node, length = 0) {
    this.at += length;
    this.out.push(node);
  }

  add(text, at) {
    if (!follows(this.out.at(-1), at)) this.out.push(plain("", at));
    this.out.at(-1).text += text;
  }

  literal() {
    this.add(this.text[this.at], this.at);
    this.at += 1;
  }

  length(sign) {
    let end = this.at;
    while (this.text[end] === sign) end += 1;
    return end - this.at;
  }

  code() {
    const length = this.length("`");
    const end = this.missing.has(length) ? -1 : this.closing(length);
    if (end < 0) {
      this.missing.add(length);
      this.add("`".repeat(length), this.at);
      this.at += length;
      return;
    }
    const within = this.text.slice(this.at + length, end).replace(/\n/g, " ");
    const padded = within.startsWith(" ") && within.endsWith(" ") && within.trim();
    const text = padded ? within.slice(1, -1) : within;
    this.push({ type: "code", text, at: this.at + length + (padded ? 1 : 0) });
    this.at = end + length;
  }

  closing(length) {
    const run = "`".repeat(length);
    let at = this.text.indexOf(run, this.at + length);
    while (at >= 0) {
      let end = at + length;
      while (this.text[end] === "`") end += 1;
      if (end - at === length) return at;
      at = this.text.indexOf(run, end);
    }
    return -1;
  }

  run(sign) {
    const length = this.length(sign);
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + length] ?? " ";
    const left = !/\s/.test(after) && (WORD.test(after) || !WORD.test(before));
    const right = !/\s/.test(before) && (WORD.test(before) || !WORD.test(after));
    const opens = sign === "_" ? left && !WORD.test(before) : left;
    const closes = sign === "_" ? right && !WORD.test(after) : right;
    const node = { type: "run", sign, length, opens, closes, at: this.at };
    this.push(sign === "~" && length !== 2 ? plain(sign.repeat(length), this.at) : node, length);
  }

  open(mark) {
    this.brackets.push(this.out.length);
    this.push({ ...plain(mark, this.at), bracket: true }, mark.length);
    this.out.push(plain("", this.at));
  }

  close() {
    const opened = this.brackets.pop();
    const end = this.at;
    const target = opened === undefined ? null : this.target();
    if (target === null) return this.literal();
    const children = emphasised(this.out.splice(opened).slice(1));
    const href = address(target);
    if (href) this.out.push({ ...link(href, children) });
    else this.out.push(...children, plain(` (${target})`, end));
    this.brackets = this.brackets.filter((place) => this.out[place]?.text === "![");
  }

  /** Read `](address "title")`; null, and nothing is read, where there is none. */
  target() {
    if (this.text[this.at + 1] !== "(") return null;
    const from = this.at + 2;
    let depth = 1;
    let end = from;
    for (; end < this.text.length && end - from < MAX_ADDRESS; end += 1) {
      const sign = this.text[end];
      if (sign === "\n") return null;
      if (sign === "(") depth += 1;
      if (sign === ")" && --depth === 0) break;
    }
    if (this.text[end] !== ")") return null;
    this.at = end + 1;
    const within = this.text.slice(from, end).trim();
    return within.replace(/\s+(?:"[^"]*"|'[^']*')$/, "").replace(/^<(.*)>$/, "$1");
  }

  bare() {
    const before = this.text[this.at - 1] ?? " ";
    const match = WORD.test(before) ? null : this.match(URL_HERE);
    if (!match) return this.literal();
    let url = match[0].replace(/[.,;:!?'*_~\]]+$/, "");
    while (url.endsWith(")") && url.split(")").length > url.split("(").length)
      url = url.slice(0, -1);
    this.at -= match[0].length - url.length;
    const href = address(url);
    const text = plain(url, match.index);
    this.push(href ? link(href, [text]) : text);
  }
}

const plain = (text, at) => ({ type: "text", text, at });
const link = (href, children) => ({ type: "link", href, children });

/** Pair the runs of `*`, `_` and `~`, each closing one with the nearest that can open. */
function emphasised(nodes) {
  const out = [];
  const openers = [];
  for (const node of nodes) {
    if (node.type === "run" && node.closes) closeRuns(node, out, openers);
    if (node.type === "run" && node.opens && node.length) {
      openers.push([out.length, node]);
      if (openers.length > MAX_OPEN) openers.shift();
    }
    out.push(node);
  }
  return joined(out);
}

/** Whether a node is a text that ends where another one begins. */
const follows = (node, at) => node?.type === "text" && node.at + node.text.length === at;

/** Make texts of runs that paired with none, and one text of neighbours. */
function joined(nodes) {
  const out = [];
  for (const node of nodes) {
    const text =
      node.type === "run" ? node.sign.repeat(node.length) : node.type === "text" ? node.text : null;
    if (text === null) out.push(node);
    else if (follows(out.at(-1), node.at)) out.at(-1).text += text;
    else if (text) out.push(plain(text, node.at));
  }
  return out;
}

function closeRuns(closer, out, openers) {
  while (closer.length) {
    const found = openers.findLastIndex(([, opener]) => opener.sign === closer.sign);
    if (found < 0) return;
    const [place, opener] = openers[found];
    const size = opener.length > 1 && closer.length > 1 ? 2 : 1;
    if (closer.sign === "~" && size === 1) return;
    const type = closer.sign === "~" ? "deleted" : size === 2 ? "strong" : "emphasis";
    out.push({ type, children: joined(out.splice(place + 1)) });
    opener.length -= size;
    closer.length -= size;
    closer.at += size;
    openers.length = opener.length ? found + 1 : found;
  }
}
