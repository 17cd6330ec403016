// Pictures through Vercel's AI SDK: node ai.mjs ADDRESS BASE64
import assert from "node:assert/strict";
import { test } from "node:test";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";

const [, , address, picture] = process.argv;
const model = createOpenAICompatible({ name: "localspec", baseURL: `${address}/v1` })("scripted");

for (const [how, image] of [
  ["base64", picture],
  ["bytes", new Uint8Array(Buffer.from(picture, "base64"))],
]) {
  test(`a picture by its ${how} is seen`, async () => {
    const content = [
      { type: "text", text: "See " },
      { type: "image", image },
    ];
    const asked = { model, maxRetries: 0, messages: [{ role: "user", content }] };
    assert.equal((await ai.generateText(asked)).text, "You said: See [red]");
    let said = "";
    for await (const text of ai.streamText(asked).textStream) said += text;
    assert.equal(said, "You said: See [red]");
  });
}
