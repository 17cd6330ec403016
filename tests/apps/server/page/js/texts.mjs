// Code, signs, streams, metrics: node texts.mjs FOLDER
import assert from "node:assert/strict";
import { test } from "node:test";

const site = process.argv[2];
const { colour, language } = await import(`${site}/highlight.js`);
const { LANGUAGES } = await import(`${site}/languages.js`);
const { pieces } = await import(`${site}/visible.js`);
const { EventReader } = await import(`${site}/sse.js`);
const { acceptance, decoded, metrics, total } = await import(`${site}/metrics.js`);
const { points } = await import(`${site}/chart.js`);
const { readable } = await import(`${site}/announcer.js`);
const { pause } = await import(`${site}/painter.js`);
const { cuts } = await import(`${site}/long_text.js`);

const kinds = (name, line, state) =>
  colour(language(name), line, state).tokens.filter(([kind]) => kind);

test("code is coloured by its language", () => {
  assert.deepEqual(kinds("python", 'def add(a): return "x"  # note'), [
    ["keyword", "def"],
    ["call", "add"],
    ["keyword", "return"],
    ["string", '"x"'],
    ["comment", "# note"],
  ]);
  assert.deepEqual(kinds("js", "if (x === 0x1f) return null;"), [
    ["keyword", "if"],
    ["number", "0x1f"],
    ["keyword", "return"],
    ["number", "null"],
  ]);
  assert.deepEqual(kinds("json", '{"a": [1, true]}'), [
    ["call", '"a"'],
    ["number", "1"],
    ["number", "true"],
  ]);
  assert.deepEqual(kinds("diff", "-old"), [["removed", "-old"]]);
  assert.deepEqual(kinds("sql", "SELECT a FROM b"), [
    ["keyword", "SELECT"],
    ["keyword", "FROM"],
  ]);
});

test("strings and comments go over lines", () => {
  const open = colour(language("python"), '"""first', null);
  assert.deepEqual(open.tokens, [["string", '"""first']]);
  const closed = colour(language("python"), 'last""" + 1', open.state);
  assert.deepEqual([closed.tokens[0], closed.state], [["string", 'last"""'], null]);
  const comment = colour(language("c"), "x /* a", null);
  assert.equal(colour(language("c"), "b */ y", comment.state).tokens[0][0], "comment");
});

test("an unknown language stays plain", () => {
  assert.equal(language("klingon"), null);
  assert.deepEqual(colour(null, "a b").tokens, [["", "a b"]]);
});

test("colouring loses no character, whatever the line", () => {
  const lines = [
    "a 'b",
    '"\\',
    "/* ",
    "`${x}`",
    "é 名前(1)",
    "<a b='c'>&amp;</a>",
    "@x #y $z --w",
    "'''",
    "\t{}[];",
    "+++",
    "x".repeat(3000),
  ];
  for (const [name, one] of LANGUAGES)
    for (const line of lines) {
      assert.equal(
        colour(one, line)
          .tokens.map(([, text]) => text)
          .join(""),
        line,
        `${name}: ${line}`,
      );
    }
});

test("no language takes long for a line", () => {
  const lines = [
    '"'.repeat(2000),
    "a(".repeat(1000),
    "/*".repeat(1000),
    "\\".repeat(2000),
    "<".repeat(2000),
    " ".repeat(2000),
    "1".repeat(2000),
    "$".repeat(2000),
    "a.".repeat(1000),
    "a-".repeat(1000),
  ];
  for (const [name, one] of LANGUAGES)
    for (const line of lines) {
      const begun = performance.now();
      colour(one, line);
      assert.ok(performance.now() - begun < 500, `${name}: ${line.slice(0, 4)}`);
    }
});

test("signs that turn or hide a text are shown", () => {
  assert.deepEqual(pieces("plain\ttext\n"), ["plain\ttext\n"]);
  assert.deepEqual(
    pieces("a\u202eb").map((piece) => piece.label ?? piece),
    ["a", "RLO", "b"],
  );
  assert.deepEqual(
    pieces("\u0007\u{e0041}\ud800").map((piece) => piece.label),
    ["U+0007", "U+E0041", "U+D800"],
  );
  assert.deepEqual(pieces("👩‍💻 نیم‌فاصله"), ["👩‍💻 نیم‌فاصله"]);
  assert.deepEqual(pieces("a\r\nb\rc"), ["a\nb\nc"]);
});

test("events are read from pieces that are cut anywhere", () => {
  const stream = 'data: {"a":1}\r\n\r\n: still here\n\ndata: x\ndata: y\n\ndata: [DONE]\n\n';
  for (let at = 0; at <= stream.length; at += 1) {
    const reader = new EventReader();
    assert.deepEqual(
      [...reader.push(stream.slice(0, at)), ...reader.push(stream.slice(at))],
      ['{"a":1}', "x\ny", "[DONE]"],
    );
  }
});

const TEXT = `# HELP localspec_tokens_total Tokens
localspec_tokens_total{model="m",source="target"} 30.0
localspec_tokens_total{model="m",source="ngram"} 12.0
localspec_tokens_total{model="o",source="target"} 1.0
localspec_rounds_total{model="m"} 20.0
localspec_drafted_total{model="m",proposer="ngram",position="17-32"} 1.0
localspec_drafted_total{model="m",proposer="ngram",position="2"} 5.0
localspec_drafted_total{model="m",proposer="ngram",position="1"} 10.0
localspec_accepted_total{model="m",proposer="ngram",position="1"} 8.0
localspec_memory_bytes 1e+06
odd{a="q\\"\\\\\\n"} 2
`;

test("metrics are read by name and label", () => {
  const samples = metrics(TEXT);
  assert.equal(total(samples, "localspec_tokens_total", { model: "m" }), 42);
  assert.equal(total(samples, "localspec_memory_bytes"), 1e6);
  assert.equal(samples.get("odd")[0].labels.a, 'q"\\\n');
  const places = acceptance(samples, "m").get("ngram");
  assert.deepEqual(
    [...places],
    [
      ["1", { drafted: 10, accepted: 8 }],
      ["2", { drafted: 5, accepted: 0 }],
      ["17-32", { drafted: 1, accepted: 0 }],
    ].map(([place, counts]) => [place, counts]),
  );
});

test("what was decoded counts replies that ended and those under way", () => {
  const slots = [{ n_decoded: 5, n_rounds: 3, n_drafted: 4, n_accepted: 2 }, {}];
  assert.deepEqual(decoded(metrics(TEXT), slots, "m"), {
    tokens: 47,
    rounds: 23,
    drafted: 20,
    accepted: 10,
  });
});

test("a line ends at the right with its newest value", () => {
  assert.deepEqual(points([1, 2], 3, 100, 12), ["50.0,6.0", "100.0,1.0"]);
});

test("what is read out ends with a sentence", () => {
  assert.deepEqual(readable("One. Two is h"), ["One. ", "Two is h"]);
  assert.deepEqual(readable("half"), ["", "half"]);
});

test("drawing takes a small share of the time", () => {
  assert.equal(pause(1), 33);
  assert.equal(pause(15), 100);
  assert.equal(pause(9999), 1000);
});

test("a long line is cut between characters", () => {
  const line = "😀".repeat(5001);
  const parts = cuts(line);
  assert.equal(parts.join(""), line);
  assert.ok(parts.every((part) => part.length <= 4000 && part.length % 2 === 0));
});
