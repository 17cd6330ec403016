// Where each character of a rendered Markdown text stands in its source: node places.mjs FOLDER
import assert from "node:assert/strict";
import { test } from "node:test";

const site = process.argv[2];
const { blocks } = await import(`${site}/markdown.js`);
const { inline } = await import(`${site}/inline.js`);
const { cut, joined, piece, placeOf, trimmed, without } = await import(`${site}/pieces.js`);

/** The texts of blocks, each with the place of its first character in the paragraph or before. */
function* pieces(list) {
  for (const block of list) {
    if (block.type === "code" || block.type === "math") yield block;
    for (const item of block.items ?? []) yield* pieces(item.blocks);
    yield* pieces(block.blocks ?? []);
    for (const row of block.rows ? [block.head, ...block.rows.map(({ cells }) => cells)] : [])
      for (const cell of row) yield* leaves(inline(cell.text), cell);
    if (block.type === "paragraph" || block.type === "heading")
      yield* leaves(inline(block.text), block);
  }
}

function* leaves(nodes, source) {
  for (const node of nodes) {
    if (node.children) yield* leaves(node.children, source);
    else if (node.text)
      yield { text: node.text, places: cut(source, node.at, node.at + node.text.length).places };
  }
}

/** Each character that is shown, with the one at its place in the source. */
function compared(text, from = 0) {
  const found = [];
  for (const shown of pieces(blocks(text, from)))
    for (let at = 0; at < shown.text.length; at += 1) {
      const place = placeOf(shown, at) - from;
      found.push([shown.text[at], text[place], place]);
    }
  return found;
}

// What is shown as another character: the ends of lines in code, names of characters, and a
// bracket before an address that leads nowhere.
const CHANGED = (shown, there) =>
  (shown === " " && there === "\n") || there === "&" || (there === "]" && shown === " ");

function check(text) {
  let last = -1;
  for (const [shown, there, place] of compared(text, 0)) {
    const right = (shown === there || CHANGED(shown, there)) && place > last;
    if (!right) assert.fail(JSON.stringify({ text, shown, there, place, last }));
    last = place;
  }
}

const RICH = `# A *title* #

Some **bold *both* b** and \`\`co\`de\`\` &amp; \\*not\\* [a **link**](https://example.org/x "t"),
<https://example.org/a> https://example.org/b. ~~gone~~ ***all*** [no](javascript:x) $$m$$

> quoted
> - in a list
>   > twice, with \`code\`
>
>   \`\`\`py
>     x = 1
>   \`\`\`

1. one
   and more

   | a \\| b | c |
   |:--|--:|
   | \`1 \\| 2\` | **3** |
2. [x] two

  ~~~js
    let x;
   y
  ~~~
\\[
 a + b
\\]
`;

test("each character of a rendered text stands where it came from, in order", () => {
  check(RICH);
  assert.ok(compared(RICH).length > 200);
});

test("a sign that is left of a run stands behind those that paired", () => {
  const places = (text) => compared(text).map(([shown, , place]) => [shown, place]);
  assert.deepEqual(places("*a**"), [
    ["a", 1],
    ["*", 3],
  ]);
  assert.deepEqual(places("**a*"), [
    ["*", 0],
    ["a", 2],
  ]);
});

test("a text that begins within a longer one has its places in that one", () => {
  assert.deepEqual(compared(RICH), compared(RICH, 1000));
});

const PARTS = [
  ..."*_~`[]()!\\|<>#-+ \n\n",
  ...["**", "***", "```", "~~~py\n", "\n    ", "\n  ", "\n> ", "\n- ", "\n1. ", "- [x] ", "# ", "\n|-|-|\n"],
  ...["](https://a.example/)", "](x)", "https://a.example/b", "&amp;", "\\|", "| a | b |", "$$", "\\(", "\\)", "\\[", "\\]"],
  ...["word", "é", "名前", "👩‍💻", "\ud83d", "\r\n", "\u202e", "\t", " x "],
];

test("the same of ten thousand texts that chance wrote", () => {
  let state = 7;
  const random = (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
  for (let count = 0; count < 10_000; count += 1) {
    const length = 1 + random(24);
    check(Array.from({ length }, () => PARTS[random(PARTS.length)]).join(""));
  }
});

test("lists and quotes within each other a thousand deep keep their places", () => {
  check(`${"> ".repeat(1000)}x`);
  check(Array.from({ length: 1000 }, (_, at) => `${"  ".repeat(at)}- a${at}`).join("\n"));
});

test("pieces are cut, trimmed, thinned and joined with their places", () => {
  const source = piece("  a-b-c ", 10);
  assert.equal(placeOf(trimmed(source), 0), 12);
  const thin = without(trimmed(source), /-/g);
  assert.deepEqual([thin.text, thin.places], ["abc", [[0, 12], [1, 14], [2, 16]]]);
  assert.deepEqual(cut(thin, 1, 3).places, [[0, 14], [1, 16]]);
  assert.deepEqual(joined([piece("ab", 3), piece("cd", 5)]).places, [[0, 3]]);
});
