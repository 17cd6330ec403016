// The server through OpenAI's own client: node openai.mjs ADDRESS
import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "any", maxRetries: 0 });
const Person = z.object({ name: z.string(), age: z.number().int() });
const weather = {
  type: "function",
  function: {
    name: "weather",
    description: "Tells the weather.",
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};

function asking(text, wishes = {}) {
  return { model: "scripted", messages: [{ role: "user", content: text }], ...wishes };
}

test("a conversation is answered", async () => {
  const reply = await client.chat.completions.create(asking("größe?"));
  assert.equal(reply.choices[0].message.content, "You said: größe?");
  assert.equal(reply.choices[0].finish_reason, "stop");
  assert.equal(reply.usage.completion_tokens, Buffer.byteLength("You said: größe?") + 1);
});

test("a stream says the same and counts at its end", async () => {
  const wishes = { stream: true, stream_options: { include_usage: true } };
  let [said, usage] = ["", null];
  for await (const chunk of await client.chat.completions.create(asking("here", wishes))) {
    said += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(said, "You said: here");
  assert.equal(usage.completion_tokens, said.length + 1);
});

test("a stream that is left early takes no slot with it", async () => {
  for (let at = 0; at < 10; at++) {
    const stream = await client.chat.completions.create(asking("on ".repeat(200), { stream: true }));
    for await (const _ of stream) break;
  }
  const reply = await client.chat.completions.create(asking("here"));
  assert.equal(reply.choices[0].message.content, "You said: here");
});

test("a streamed call is put together", async () => {
  const stream = client.chat.completions.stream(asking("rain today?", { tools: [weather] }));
  const [call] = (await stream.finalMessage()).tool_calls;
  assert.equal(call.function.name, "weather");
  assert.deepEqual(JSON.parse(call.function.arguments), { city: "Oslo" });
});

test("a tool is run and its result answered", async () => {
  const run = ({ city }) => `rain in ${city}`;
  const tools = [{ ...weather, function: { ...weather.function, function: run, parse: JSON.parse } }];
  const runner = client.chat.completions.runTools(asking("rain today?", { tools }));
  assert.equal(await runner.finalContent(), "You said: rain in Oslo");
});

test("a reply follows a schema", async () => {
  const wishes = { response_format: zodResponseFormat(Person, "person") };
  const reply = await client.chat.completions.parse(asking("who?", wishes));
  assert.deepEqual(reply.choices[0].message.parsed, { name: "Ada", age: 36 });
});

test("a text is gone on with", async () => {
  const reply = await client.completions.create({ model: "scripted", prompt: "a text", max_tokens: 3 });
  assert.equal(reply.choices[0].text, "YYY");
});

test("the API of items is spoken too", async () => {
  const reply = await client.responses.create({ model: "scripted", input: "here" });
  assert.equal(reply.output_text, "You said: here");
  const stream = client.responses.stream({ model: "scripted", input: "here" });
  assert.equal((await stream.finalResponse()).output_text, "You said: here");
});

test("what cannot be granted is refused", async () => {
  const asked = client.chat.completions.create(asking("here", { temperature: -1 }));
  await assert.rejects(asked, (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
});

test("the one model answers by any name", async () => {
  assert.equal((await client.models.retrieve("other")).id, "scripted");
});

test("what changes nothing is told in a header", async () => {
  const asked = client.chat.completions.create({ ...asking("here", { audio: { voice: "alloy" } }), model: "other" });
  const { data, response } = await asked.withResponse();
  assert.equal(data.choices[0].message.content, "You said: here");
  assert.equal(response.headers.get("x-localspec-ignored"), "audio");
});

test("models are listed", async () => {
  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.deepEqual(names, ["scripted"]);
});
