// Pieces of a text that know where they stand in it: `{text, places}`. Entries of `places` are
// [at, from]: the characters of the piece from `at` on are those of the whole text from `from` on.

/** Make a piece of a text that begins at `from` of the whole. */
export const piece = (text, from = 0) => ({ text, places: [[0, from]] });

/** The place in the whole text of a character of a piece. */
export function placeOf({ places }, at) {
  const [start, from] = places[entryOf(places, at)];
  return from + at - start;
}

/** The last entry that begins at a character or before it. */
function entryOf(places, at) {
  let [low, high] = [0, places.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (places[middle][0] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The piece from one character up to another. */
export function cut({ text, places }, from, to = text.length) {
  const own = [];
  let entry = entryOf(places, from);
  own.push([0, places[entry][1] + from - places[entry][0]]);
  for (entry += 1; entry < places.length && places[entry][0] < to; entry += 1)
    own.push([places[entry][0] - from, places[entry][1]]);
  return { text: text.slice(from, to), places: own };
}

/** Leave out the white space at both ends. */
export function trimmed(source) {
  const from = source.text.length - source.text.trimStart().length;
  return cut(source, from, Math.max(source.text.trimEnd().length, from));
}

/** Leave out what a global pattern matches. */
export function without(source, pattern) {
  const kept = [];
  let at = 0;
  for (const match of source.text.matchAll(pattern)) {
    kept.push(cut(source, at, match.index));
    at = match.index + match[0].length;
  }
  return kept.length ? joined([...kept, cut(source, at)]) : source;
}

/** Join pieces in their order. */
export function joined(pieces) {
  const places = [];
  let length = 0;
  for (const one of pieces) {
    for (const [at, from] of one.places) {
      const last = places.at(-1);
      if (!last || from - last[1] !== at + length - last[0]) places.push([at + length, from]);
    }
    length += one.text.length;
  }
  return { text: pieces.map(({ text }) => text).join(""), places };
}
