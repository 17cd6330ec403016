// Signs that turn the direction of a text, hide it or control a terminal, made visible.
const NAMES = new Map([
  [0x061c, "ALM"],
  [0x200b, "ZWSP"],
  [0x200e, "LRM"],
  [0x200f, "RLM"],
  [0x2028, "LSEP"],
  [0x2029, "PSEP"],
  [0x202a, "LRE"],
  [0x202b, "RLE"],
  [0x202c, "PDF"],
  [0x202d, "LRO"],
  [0x202e, "RLO"],
  [0x2060, "WJ"],
  [0x2066, "LRI"],
  [0x2067, "RLI"],
  [0x2068, "FSI"],
  [0x2069, "PDI"],
  [0xfeff, "BOM"],
]);
const SIGNS =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\u{e0000}-\u{e007f}]/u;
const EVERY = new RegExp(SIGNS.source, "gu");

/** Split a text into texts to show as they are, and signs with a label each. */
export function pieces(text) {
  const normal = text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
  if (!SIGNS.test(normal)) return normal ? [normal] : [];
  const parts = [];
  let at = 0;
  for (const match of normal.matchAll(EVERY)) {
    if (match.index > at) parts.push(normal.slice(at, match.index));
    parts.push(sign(match[0].codePointAt(0)));
    at = match.index + match[0].length;
  }
  if (at < normal.length) parts.push(normal.slice(at));
  return parts;
}

function sign(code) {
  const number = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  return { label: NAMES.get(code) ?? number, title: `invisible character ${number}` };
}
