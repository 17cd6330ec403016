// Pictures through OpenAI's library: node openai.mjs ADDRESS BASE64
import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

const [, , address, picture] = process.argv;
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "any", maxRetries: 0 });
const url = `data:image/png;base64,${picture}`;

test("a picture in a chat is seen", async () => {
  const content = [
    { type: "text", text: "See " },
    { type: "image_url", image_url: { url, detail: "high" } },
  ];
  const messages = [{ role: "user", content }];
  const reply = await client.chat.completions.create({ model: "scripted", messages });
  assert.equal(reply.choices[0].message.content, "You said: See [red]");
});

test("a picture among items is seen", async () => {
  const content = [
    { type: "input_text", text: "See " },
    { type: "input_image", image_url: url, detail: "auto" },
  ];
  const input = [{ role: "user", content }];
  const reply = await client.responses.create({ model: "scripted", input });
  assert.equal(reply.output_text, "You said: See [red]");
});
