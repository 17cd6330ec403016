// Conversations as trees, and the requests that they make: node conversations.mjs FOLDER
import assert from "node:assert/strict";
import { test } from "node:test";

const site = process.argv[2];
const tree = await import(`${site}/tree.js`);
const { fenced, requestFor, settingsOf, tools } = await import(`${site}/request.js`);

function talk() {
  const one = tree.conversation({}, 1);
  const asked = tree.add(one, null, { role: "user", text: "Hello there" }, 2);
  const said = tree.add(one, asked.id, { role: "assistant", text: "Hi" }, 3);
  return { one, asked, said };
}

test("a conversation is named by its first message and read up to its leaf", () => {
  const { one } = talk();
  assert.equal(one.title, "Hello there");
  assert.deepEqual(
    tree.path(one).map((node) => node.text),
    ["Hello there", "Hi"],
  );
});

test("another answer stands beside the first, and each leads on to what followed it", () => {
  const { one, asked, said } = talk();
  const more = tree.add(one, said.id, { role: "user", text: "More" }, 4);
  const other = tree.add(one, asked.id, { role: "assistant", text: "Ho" }, 5);
  assert.deepEqual(tree.siblings(one, said.id), [said.id, other.id]);
  assert.deepEqual(
    tree.path(one).map((node) => node.text),
    ["Hello there", "Ho"],
  );
  tree.select(one, said.id);
  assert.equal(one.leaf, more.id);
});

test("a branch is a conversation of its own with the messages up to one", () => {
  const { one, asked } = talk();
  const copy = tree.branch(one, asked.id, 9);
  assert.notEqual(copy.id, one.id);
  assert.deepEqual(
    tree.path(copy).map((node) => node.text),
    ["Hello there"],
  );
  copy.nodes[asked.id].text = "changed";
  assert.equal(one.nodes[asked.id].text, "Hello there");
});

test("a search finds all words in any order and case", () => {
  const { one } = talk();
  assert.ok(tree.matches(one, "THERE hello"));
  assert.ok(!tree.matches(one, "hello nobody"));
});

test("what was exported is imported as it was", () => {
  const { one } = talk();
  const [read] = tree.imported(tree.exported([one]));
  assert.deepEqual(
    tree.path(read).map(({ role, text }) => [role, text]),
    [
      ["user", "Hello there"],
      ["assistant", "Hi"],
    ],
  );
  assert.equal(read.id, one.id);
});

test("a file that is no export is refused with a reason", () => {
  assert.throws(() => tree.imported("no"), /no JSON/);
  assert.throws(() => tree.imported("[]"), /not of the format/);
});

test("an import with odd things in it is read as far as it makes sense", () => {
  const nodes = {
    a: { id: "a", parent: "b", role: "user", text: 5, files: "x", calls: {}, lens: 7 },
    b: { id: "b", parent: "a", role: "assistant", text: "x", lens: { said: [1], rounds: "y" } },
    c: null,
    d: { id: "d", role: "evil" },
  };
  const [read] = tree.imported(
    JSON.stringify({ format: tree.FORMAT, conversations: [{ id: 3, nodes, leaf: "a" }] }),
  );
  assert.deepEqual(Object.keys(read.nodes), ["a", "b"]);
  assert.deepEqual(
    tree
      .path(read)
      .map((node) => node.id)
      .sort(),
    ["a", "b"],
  ); // a circle ends
  assert.equal(read.nodes.a.text, "");
  assert.deepEqual(
    [read.nodes.a.files, read.nodes.a.calls, read.nodes.a.lens, read.nodes.b.lens],
    [[], [], null, null],
  );
});

test("the request has the messages up to the leaf, and settings only where they are set", () => {
  const { one } = talk();
  const request = requestFor(one, "m");
  assert.deepEqual(request.messages, [
    { role: "user", content: "Hello there" },
    { role: "assistant", content: "Hi" },
  ]);
  assert.deepEqual(Object.keys(request).sort(), [
    "localspec",
    "messages",
    "model",
    "return_progress",
    "stream",
    "stream_options",
  ]);
  assert.deepEqual(request.localspec, { trace: true });
});

test("every setting has its field", () => {
  const { one } = talk();
  one.settings = {
    system: "Be brief.",
    sampling: { temperature: 0.5 },
    maxTokens: "20",
    seed: "7",
    stop: ["END"],
    banned: ["x"],
    schema: '{"type":"object"}',
    tools: '{"name":"f"}',
    think: "off",
    budget: "100",
    drafts: true,
    proposer: "ngram",
    depth: "4",
    alternatives: 3,
  };
  const request = requestFor(one, "m");
  assert.equal(request.messages[0].content, "Be brief.");
  assert.deepEqual(
    [request.temperature, request.max_tokens, request.seed, request.stop, request.banned_strings],
    [0.5, 20, 7, ["END"], ["x"]],
  );
  assert.deepEqual(request.response_format.json_schema.schema, { type: "object" });
  assert.deepEqual(request.tools, [{ type: "function", function: { name: "f" } }]);
  assert.deepEqual([request.enable_thinking, request.reasoning_budget_tokens], [false, 100]);
  assert.deepEqual(request.localspec, { trace: true, proposer: "ngram", depth: 4 });
  assert.deepEqual([request.logprobs, request.top_logprobs], [true, 3]);
  one.settings.drafts = false;
  assert.deepEqual(requestFor(one, "m").localspec, { trace: true, plain: true });
});

test("a request that ends with an answer asks for the rest of it", () => {
  const { one, said } = talk();
  tree.add(one, said.id, { role: "user", text: "More" });
  assert.deepEqual(requestFor(one, "m", said.id).messages.at(-1), {
    role: "assistant",
    content: "Hi",
  });
});

test("settings of another kind are left out", () => {
  assert.deepEqual(
    settingsOf({ stop: "x", seed: 5, system: "s", more: 1 }),
    settingsOf({ system: "s" }),
  );
  assert.deepEqual(settingsOf(null), settingsOf({}));
});

test("a text to be edited is in the message and is what is predicted", () => {
  const one = tree.conversation({}, 1);
  tree.add(one, null, { role: "user", text: "Rename a.", edit: "a = 1\n" });
  const request = requestFor(one, "m");
  assert.equal(request.messages[0].content, "Rename a.\n\n```\na = 1\n```");
  assert.deepEqual(request.prediction, { type: "content", content: "a = 1\n" });
});

test("a fence is longer than any in its text", () => {
  assert.equal(fenced("```\nx\n```"), "````\n```\nx\n```\n````");
});

test("files are in the text, pictures are parts", () => {
  const one = tree.conversation({}, 1);
  tree.add(one, null, {
    role: "user",
    text: "See.",
    files: [
      { name: "a.txt", kind: "text", data: "A" },
      { name: "p", kind: "picture", data: "data:image/png;base64,AA==" },
    ],
  });
  const [message] = requestFor(one, "m").messages;
  assert.deepEqual(message.content, [
    { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } },
    { type: "text", text: "a.txt\n```\nA\n```\n\nSee." },
  ]);
});

test("calls and their results go back as the API has them", () => {
  const { one, said } = talk();
  said.calls = [{ id: "c1", name: "f", arguments: "{}" }];
  tree.add(one, said.id, { role: "tool", callId: "c1", name: "f", text: "42" });
  const [, call, result] = requestFor(one, "m").messages;
  assert.deepEqual(call.tool_calls, [
    { id: "c1", type: "function", function: { name: "f", arguments: "{}" } },
  ]);
  assert.deepEqual(result, { role: "tool", tool_call_id: "c1", content: "42" });
});

test("tools that are no JSON are told with their name", () => {
  assert.throws(() => tools("{"), /the list of tools is no JSON/);
});
