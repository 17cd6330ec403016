// The server through Vercel's AI SDK: node ai.mjs ADDRESS
import assert from "node:assert/strict";
import { test } from "node:test";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";
import { z } from "zod";

const provider = createOpenAICompatible({
  name: "localspec",
  baseURL: `${process.argv[2]}/v1`,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const model = provider("scripted");
const Person = z.object({ name: z.string(), age: z.number().int() });
const tools = {
  weather: ai.tool({
    description: "Tells the weather.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => `rain in ${city}`,
  }),
};
const wishes = { model, maxRetries: 0 };

test("a text is generated", async () => {
  const reply = await ai.generateText({ ...wishes, system: "Be brief.", prompt: "größe?" });
  assert.equal(reply.text, "You said: größe?");
  assert.equal(reply.finishReason, "stop");
  assert.equal(reply.usage.outputTokens, Buffer.byteLength(reply.text) + 1);
});

test("a text is streamed", async () => {
  const reply = ai.streamText({ ...wishes, prompt: "here" });
  let said = "";
  for await (const text of reply.textStream) said += text;
  assert.equal(said, "You said: here");
  assert.equal((await reply.usage).outputTokens, said.length + 1);
});

for (const [how, ask] of [
  ["generated", ai.generateText],
  ["streamed", async (asked) => ai.streamText(asked)],
]) {
  test(`a tool is called and its result answered in a ${how} text`, async () => {
    const stopWhen = ai.stepCountIs(3);
    const reply = await ask({ ...wishes, tools, stopWhen, prompt: "rain today?" });
    const steps = await reply.steps;
    assert.deepEqual(steps[0].toolCalls[0].input, { city: "Oslo" });
    assert.equal(steps[0].finishReason, "tool-calls");
    assert.equal(await reply.text, "You said: rain in Oslo");
    assert.equal(steps.length, 2);
  });
}

test("an object is generated", async () => {
  const reply = await ai.generateObject({ ...wishes, schema: Person, prompt: "who?" });
  assert.deepEqual(reply.object, { name: "Ada", age: 36 });
});

test("an object is streamed", async () => {
  const reply = ai.streamObject({ ...wishes, schema: Person, prompt: "who?" });
  for await (const part of reply.partialObjectStream) assert.equal(typeof part, "object");
  assert.deepEqual(await reply.object, { name: "Ada", age: 36 });
});

test("an output of a text can be an object", async () => {
  const output = ai.Output.object({ schema: Person });
  const reply = await ai.generateText({ ...wishes, output, prompt: "who?" });
  assert.deepEqual(reply.output, { name: "Ada", age: 36 });
});

test("a plain text is gone on with", async () => {
  const plain = provider.completionModel("scripted");
  const reply = await ai.generateText({ model: plain, prompt: "a text", maxOutputTokens: 3 });
  assert.equal(reply.finishReason, "length");
  assert.equal(reply.usage.outputTokens, 3);
});

test("what cannot be granted is refused", async () => {
  const refused = ai.generateText({ ...wishes, temperature: -1, prompt: "here" });
  await assert.rejects(refused, (error) => error.statusCode === 400 && /at least 0/.test(error.message));
});
