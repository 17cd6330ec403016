// Markdown as blocks and inline trees: node markdown.mjs FOLDER
import assert from "node:assert/strict";
import { test } from "node:test";

const site = process.argv[2];
const { blocks, ripe } = await import(`${site}/markdown.js`);
const { address, inline } = await import(`${site}/inline.js`);

const types = (text) => blocks(text).map((block) => block.type);
const flat = (nodes) =>
  nodes
    .map((node) =>
      node.children
        ? [node.type, ...flat(node.children)]
        : node.type === "text"
          ? node.text
          : [node.type, node.text],
    )
    .reduce((out, node) => {
      const texts = typeof node === "string" && typeof out.at(-1) === "string";
      return texts ? [...out.slice(0, -1), out.at(-1) + node] : [...out, node];
    }, []);
const read = (text) => flat(inline(text));

test("the blocks that models write are told apart", () => {
  const text =
    "# Title\n\nA line\nand one more\n\n- one\n- two\n\n1. first\n\n> said\n\n---\n\n```py\nx = 1\n```\n\na | b\n--|--\n1 | 2";
  assert.deepEqual(types(text), [
    "heading",
    "paragraph",
    "list",
    "list",
    "quote",
    "rule",
    "code",
    "table",
  ]);
});

test("a block covers its place in the text, so that a growing text is read from there", () => {
  const text = "one\n\n```\ncode\n\n```\nlast";
  const found = blocks(text);
  assert.deepEqual(
    found.map((block) => text.slice(block.start, block.end)),
    ["one\n", "```\ncode\n\n```\n", "last"],
  );
});

test("a text read piece by piece ends as the same blocks", () => {
  const text =
    "Intro:\n\n1. one\n   - a\n   - b\n\n2. two\n\n   more\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n~~~js\nlet x;\n~~~\n\nEnd *of* it.";
  const whole = blocks(text).map(({ start, end, ...block }) => block);
  let settled = 0;
  let done = [];
  let tail = [];
  for (let end = 1; end <= text.length; end += 1) {
    tail = blocks(end < text.length ? ripe(text.slice(settled, end)) : text.slice(settled), settled);
    if (tail.length > 1) {
      done.push(...tail.slice(0, -1));
      settled += tail.at(-1).start;
      tail = blocks(text.slice(settled, end), settled);
    }
  }
  const pieces = [...done, ...tail].map(({ start, end, ...block }) => block);
  assert.deepEqual(
    pieces.map((block) => block.type),
    whole.map((block) => block.type),
  );
  assert.deepEqual(pieces, whole);
});

test("a fence is open until its end, and one within a longer fence is code", () => {
  const [open] = blocks("```js\nlet x;");
  assert.deepEqual([open.closed, open.text], [false, "let x;"]);
  const [nested] = blocks("````\n```\nx\n```\n````");
  assert.deepEqual([nested.closed, nested.text], [true, "```\nx\n```"]);
});

test("items have what belongs to them: paragraphs, code, other lists, a box", () => {
  const [list] = blocks("- [x] done\n- [ ] open\n  - within\n- code:\n\n  ```\n  x\n  ```\n");
  assert.deepEqual(
    list.items.map((item) => item.checked),
    [true, false, null],
  );
  assert.deepEqual(
    list.items[1].blocks.map((block) => block.type),
    ["paragraph", "list"],
  );
  assert.equal(list.items[2].blocks[1].text, "x");
});

test("a very long list goes on in another one, so that a growing one stays cheap", () => {
  const lists = blocks(Array.from({ length: 1200 }, (_, at) => `${at + 1}. x`).join("\n"));
  assert.deepEqual(
    lists.map((list) => [list.from, list.items.length]),
    [
      [1, 500],
      [501, 500],
      [1001, 200],
    ],
  );
});

test("cells of tables are aligned and may hold bars", () => {
  const [table] = blocks("| a | b |\n|:--|--:|\n| `x \\| y` | 2 |");
  assert.deepEqual(table.align, ["start", "end"]);
  assert.deepEqual(
    table.rows.map((row) => row.cells.map(({ text }) => text)),
    [["`x | y`", "2"]],
  );
});

test("emphasis, code and links are read", () => {
  assert.deepEqual(read("a *b* **c** ***d*** ~~e~~ `f *g*`"), [
    "a ",
    ["emphasis", "b"],
    " ",
    ["strong", "c"],
    " ",
    ["emphasis", ["strong", "d"]],
    " ",
    ["deleted", "e"],
    " ",
    ["code", "f *g*"],
  ]);
  assert.deepEqual(read("snake_case_name and 2 * 3 * 4"), ["snake_case_name and 2 * 3 * 4"]);
  assert.deepEqual(read("**bold *both* bold**"), [
    ["strong", "bold ", ["emphasis", "both"], " bold"],
  ]);
  assert.deepEqual(read("``a ` b``"), [["code", "a ` b"]]);
  assert.deepEqual(read("\\*not\\* &lt;b&gt;"), ["*not* <b>"]);
  assert.deepEqual(read("\\(a_1 * b_2\\)"), [["math", "\\(a_1 * b_2\\)"]]);
});

test("a link leads to http, https or mailto only", () => {
  const [link] = inline('[a **b**](https://example.org/x_(y) "title")');
  assert.deepEqual([link.type, link.href], ["link", "https://example.org/x_(y)"]);
  const [bare] = inline("https://example.org/a.");
  assert.equal(bare.href, "https://example.org/a");
  for (const bad of [
    "javascript:alert(1)",
    " JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "//evil.example",
    "\u0001javascript:alert(1)",
    "blob:x",
    "about:blank",
  ]) {
    assert.equal(address(bad), null, bad);
    const nodes = JSON.stringify(inline(`[x](${bad})`));
    assert.ok(!nodes.includes('"link"'), nodes);
  }
});

test("html is text", () => {
  assert.deepEqual(read("<script>alert(1)</script><img src=x onerror=y>"), [
    "<script>alert(1)</script><img src=x onerror=y>",
  ]);
  assert.deepEqual(types("<script>\nalert(1)\n</script>"), ["paragraph"]);
});

test("a picture of another host is a link, which nobody loads by itself", () => {
  const [link] = inline("![a cat](https://example.org/cat.png)");
  assert.deepEqual([link.type, link.href], ["link", "https://example.org/cat.png"]);
});

const MEGABYTE = 1 << 20;
const HOSTILE = {
  "one long line": "x".repeat(MEGABYTE),
  stars: "*a".repeat(50_000),
  "stars and lines": "*a _b ".repeat(20_000),
  brackets: "[".repeat(100_000),
  "closed brackets": "[a](".repeat(30_000),
  backticks: Array.from({ length: 400 }, (_, at) => "`".repeat(at + 1)).join(" "),
  quotes: ">".repeat(100_000),
  "quotes in lines": ">\n".repeat(50_000),
  lists: Array.from({ length: 3000 }, (_, at) => `${" ".repeat(at % 200)}- a`).join("\n"),
  fences: "```\n".repeat(50_000),
  bars: `${"|".repeat(20_000)}\n${"|-".repeat(10_000)}`,
  dashes: "-".repeat(100_000),
  spaces: `a${" ".repeat(MEGABYTE)}b`,
  underscores: "_".repeat(100_000),
  hashes: "# ".repeat(50_000),
  math: "$$".repeat(50_000),
  "open math": "\\(".repeat(50_000),
  addresses: "https://".repeat(30_000),
  angles: "<https://".repeat(30_000),
  entities: "&amp".repeat(50_000),
  newlines: "\n".repeat(MEGABYTE),
  rules: "* ".repeat(50_000),
};
for (const [name, text] of Object.entries(HOSTILE)) {
  test(`a text of ${name} takes no second`, () => {
    const begun = performance.now();
    const found = blocks(text);
    for (const block of found.slice(0, 50))
      if (block.type === "paragraph") inline(block.text.slice(0, 20_000));
    assert.ok(performance.now() - begun < 3000, `${performance.now() - begun} ms`);
  });
}
