// The lens: rounds, tokens by source, speeds: node lens.mjs FOLDER
import assert from "node:assert/strict";
import { test } from "node:test";

const site = process.argv[2];
const { Lens, classOf, sentence } = await import(`${site}/lens.js`);
const { widths } = await import(`${site}/timeline.js`);
const { Answer, figures, isCut } = await import(`${site}/answer.js`);

const drafted = {
  drafted: 4,
  accepted: 2,
  by: "ngram",
  ms: 20,
  rounds: 1,
  said: [
    [2, "ngram"],
    [1, "ngram"],
    [3, "target"],
  ],
};
const plain = {
  drafted: 0,
  accepted: 0,
  by: "nobody",
  ms: 40,
  rounds: 4,
  said: [
    [1, "target"],
    [1, "target"],
    [1, "target"],
    [1, "target"],
  ],
};

test("each token has its source and its round", () => {
  const lens = new Lens();
  lens.note({ ...plain, rounds: 1, said: [[1, "target"]] }, "said", "a");
  const rows = lens.note(drafted, "said", "bc d e");
  assert.deepEqual(
    rows.map(({ length, by, round }) => [length, by, round]),
    [
      [2, "ngram", 1],
      [1, "ngram", 1],
      [3, "target", 1],
    ],
  );
  assert.deepEqual(
    [...lens.sources()],
    [
      ["target", 2],
      ["ngram", 2],
    ],
  );
});

test("characters beyond the first plane count as one, as the server counts them", () => {
  const rows = new Lens().note(
    {
      ...drafted,
      said: [
        [1, "ngram"],
        [1, "target"],
      ],
    },
    "said",
    "😀a",
  );
  assert.deepEqual(
    rows.map((row) => row.length),
    [2, 1],
  );
});

test("a text without a trace is the model's own", () => {
  const [row] = new Lens().note({}, "said", "abc");
  assert.deepEqual([row.length, row.by], [3, "target"]);
});

test("speeds are of the rounds, and that without drafts is an estimate of plain decoding", () => {
  const lens = new Lens();
  lens.note({ ...plain, rounds: 1, ms: 900 }, "said", "a"); // the prompt was read in it
  assert.equal(lens.speed(), null);
  assert.equal(lens.plainSpeed(), null);
  lens.note(plain, "said", "bcde");
  lens.note(drafted, "said", "fgh");
  assert.equal(lens.plainSpeed(), 100);
  assert.equal(lens.speed(), (1000 * (3 + 4)) / 60);
});

test("a proposer of which nothing was accepted is named with none", () => {
  const lens = new Lens();
  lens.note({ ...drafted, accepted: 0 }, "said", "a");
  assert.deepEqual(
    [...lens.sources()],
    [
      ["target", 1],
      ["ngram", 0],
    ],
  );
});

test("what the model rejected of a draft stays with its round", () => {
  const lens = new Lens();
  lens.note({ ...drafted, rejected: " wrong" }, "said", "abcdef");
  assert.equal(lens.rounds[0].rejected, " wrong");
});

test("a round is told in a line", () => {
  const lens = new Lens();
  lens.note(drafted, "said", "");
  lens.note(plain, "said", "");
  assert.equal(
    sentence(lens.rounds[0], 7),
    "Round 7: 4 drafted (earlier words), 2 accepted, 2 rejected, 20 ms",
  );
  assert.equal(sentence(lens.rounds[1], 8), "4 rounds without drafts, 10 ms each");
});

test("the first round has the width of others, as its time has the prompt in it", () => {
  assert.deepEqual(
    widths([
      { ms: 5000, count: 1 },
      { ms: 10, count: 1 },
      { ms: 30, count: 1 },
    ]),
    [20, 10, 30],
  );
  assert.deepEqual(
    widths([
      { ms: 0, count: 1 },
      { ms: 0, count: 3 },
    ]),
    [1, 3],
  );
});

test("likely tokens go to the token that has their text", () => {
  const entry = (token, top = []) => ({ token, logprob: Math.log(0.5), top_logprobs: top });
  const [first, second] = new Lens().note(
    {
      ...drafted,
      said: [
        [1, "ngram"],
        [2, "target"],
      ],
    },
    "said",
    "abc",
    [
      entry("a"),
      entry("<end of something>"),
      entry("bc", [{ token: "bd", logprob: Math.log(0.25) }]),
    ],
  );
  assert.equal(first.likely[0].token, "a");
  assert.deepEqual(
    second.likely.map(({ token, share }) => [token, Number(share.toFixed(2))]),
    [
      ["bc", 0.5],
      ["bd", 0.25],
    ],
  );
});

test("a source that nobody knows has a colour", () => {
  assert.equal(classOf("ngram"), "by-ngram");
  assert.equal(classOf('x" onmouseover="y'), "by-head");
});

const chunk = (delta, more = {}) => ({ choices: [{ delta, finish_reason: null }], ...more });

test("an answer is put together from its stream", () => {
  const node = {};
  const answer = new Answer(node);
  answer.take({ choices: [{ delta: {} }], prompt_progress: { total: 100, processed: 25 } });
  assert.equal(answer.read, 0.25);
  answer.take(chunk({ reasoning_content: "hm" }));
  answer.take(chunk({ content: "Hi" }, { localspec: drafted }));
  answer.take(
    chunk({ tool_calls: [{ index: 0, id: "c1", function: { name: "f", arguments: "" } }] }),
  );
  answer.take(chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] }));
  answer.take({
    choices: [{ delta: {}, finish_reason: "tool_calls" }],
    timings: {
      draft_n: 4,
      draft_n_accepted: 2,
      tokens_per_round: 2.66,
      predicted_per_second: 50,
      speedup: 2,
    },
  });
  answer.take({ choices: [], usage: { completion_tokens: 12, prompt_tokens: 100 } });
  answer.end();
  assert.deepEqual(
    [node.thought, node.text, node.calls],
    ["hm", "Hi", [{ id: "c1", name: "f", arguments: '{"a":1}' }]],
  );
  assert.equal(answer.read, null);
  assert.equal(
    figures(node),
    "12 tokens · 50.0 tokens/s, plain ≈ 25.0 (2.00× by estimate) · 2 of 4 drafted accepted (50%) · 2.7 tokens a round · prompt 100",
  );
});

test("an answer goes on from the text and the tokens that it has", () => {
  const node = {};
  const first = new Answer(node);
  first.take(chunk({ content: "Hello" }, { localspec: { ...drafted, said: [[5, "ngram"]] } }));
  first.end({ stopped: true });
  assert.deepEqual([figures(node), isCut(node)], ["stopped", true]);
  node.text += " and"; // of which nothing is known
  const rest = new Answer(node);
  assert.equal(node.finish, null);
  rest.take(chunk({ content: " you" }, { localspec: { ...plain, rounds: 1, said: [[4, "target"]] } }));
  rest.take({ choices: [{ delta: {}, finish_reason: "stop" }] });
  rest.end();
  assert.equal(node.text, "Hello and you");
  assert.deepEqual(
    node.lens.said.map(({ length, by }) => [length, by]),
    [
      [5, "ngram"],
      [4, "target"],
      [4, "target"],
    ],
  );
  assert.equal(isCut(node), false);
});

test("only an answer with a text and an end before its time may go on", () => {
  const cut = (more) => isCut({ text: "a", calls: [], finish: "stop", error: "", ...more });
  assert.deepEqual(
    ["length", "stopped", "reload", "stop", "tool_calls"].map((finish) => cut({ finish })),
    [true, true, true, false, false],
  );
  assert.equal(cut({ error: "the connection to the server was lost", finish: null }), true);
  assert.equal(cut({ finish: "length", text: "" }), false);
  assert.equal(cut({ finish: "length", calls: [{ name: "f" }] }), false);
});

test("an error in mid-answer is raised, and what came stays", () => {
  const node = {};
  const answer = new Answer(node);
  answer.take(chunk({ content: "half" }));
  assert.throws(
    () => answer.take({ error: { message: "the server is shutting down" } }),
    /shutting down/,
  );
  answer.end({ error: "the server is shutting down" });
  assert.deepEqual([node.text, node.error], ["half", "the server is shutting down"]);
});
