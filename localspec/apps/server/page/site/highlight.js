// Colours for code: a lexer that goes line by line, so that code can be coloured while it comes.
import { LANGUAGES } from "./languages.js";

const MAX_LINE = 2000; // characters of a line; longer ones stay plain

/** Find the language of a code block by the name after its fence; null where it is not known. */
export function language(name) {
  return LANGUAGES.get(name.toLowerCase()) ?? null;
}

/**
 * Colour a line. `state` is what the line before left open (null: nothing).
 * Returns `{tokens: [[kind, text], ...], state}`, where the kind of plain text is "".
 */
export function colour(language, line, state = null) {
  if (!language || line.length > MAX_LINE) return { tokens: [["", line]], state };
  const tokens = [];
  let at = 0;
  let open = state;
  while (at < line.length) {
    const step = open ? within(open, line, at) : outside(language, line, at);
    const last = tokens.at(-1);
    const text = line.slice(at, step.end);
    if (last && last[0] === step.kind) last[1] += text;
    else tokens.push([step.kind, text]);
    at = step.end;
    open = step.open;
  }
  return { tokens, state: open };
}

/** Go on in a comment or a string that was opened before. */
function within(open, line, at) {
  let end = line.indexOf(open.end, at);
  while (open.escapes && end > 0 && escaped(line, at, end)) end = line.indexOf(open.end, end + 1);
  if (end < 0) return { kind: open.kind, end: line.length, open };
  return { kind: open.kind, end: end + open.end.length, open: null };
}

function escaped(line, from, at) {
  let slashes = 0;
  while (at - slashes > from && line[at - slashes - 1] === "\\") slashes += 1;
  return slashes % 2 === 1;
}

function outside(language, line, at) {
  for (const open of language.spans) {
    if (line.startsWith(open.begin, at)) {
      const rest = within(open, line, at + open.begin.length);
      return { ...rest, end: Math.max(rest.end, at + open.begin.length) };
    }
  }
  for (const [kind, pattern] of language.rules) {
    pattern.lastIndex = at;
    const match = pattern.exec(line);
    if (match?.[0])
      return { kind: kindOf(language, kind, match[0]), end: pattern.lastIndex, open: null };
  }
  return { kind: "", end: at + 1, open: null };
}

function kindOf(language, kind, text) {
  if (kind !== "word") return kind;
  const word = language.ignoresCase ? text.toLowerCase() : text;
  if (language.keywords.has(word)) return "keyword";
  return language.constants.has(word) ? "number" : "";
}
