// The request for an answer: a conversation and its settings as OpenAI's API has them.
import { path } from "./tree.js";

export const DEFAULTS = {
  system: "", // the system prompt
  sampling: {}, // numbers and lists by llama.cpp's names, those that were set only
  maxTokens: "",
  seed: "",
  stop: [],
  banned: [],
  schema: "", // a JSON schema that the answer follows
  tools: "", // a JSON list of functions
  think: "", // "on", "off" or "": as the model does
  budget: "", // tokens of thought
  drafts: true,
  proposer: "",
  depth: "",
  alternatives: 0, // likely tokens that are reported at each place
};

/** Fill in what settings lack; other fields, and those of another kind, are left out. */
export function settingsOf(partial) {
  const known = Object.entries(DEFAULTS).map(([name, value]) => {
    const own = partial?.[name];
    const fits =
      typeof own === typeof value && Array.isArray(own) === Array.isArray(value) && own !== null;
    return [name, structuredClone(fits ? own : value)];
  });
  return Object.fromEntries(known);
}

/** Parse the JSON of a setting; throws an Error that names it. */
function parsed(source, name) {
  try {
    return JSON.parse(source);
  } catch (error) {
    throw new Error(`${name} is no JSON: ${error.message}`);
  }
}

export function tools(source) {
  if (!source.trim()) return [];
  const list = [parsed(source, "the list of tools")].flat();
  return list.map((tool) => (tool.function ? tool : { type: "function", function: tool }));
}

export function schema(source) {
  if (!source.trim()) return null;
  const value = parsed(source, "the JSON schema");
  return { type: "json_schema", json_schema: { name: "answer", schema: value } };
}

const MARK = /`{3,}/g;

/** Put a text to be edited, or a file, in a fence longer than any in it. */
export function fenced(text, name = "") {
  const runs = text.match(MARK) ?? [];
  const longest = runs.reduce((most, run) => Math.max(most, run.length), 2);
  const fence = "`".repeat(longest + 1);
  return `${fence}${name}\n${text}${text.endsWith("\n") ? "" : "\n"}${fence}`;
}

/** A message as the API takes it. */
function wire(node) {
  if (node.role === "tool") return { role: "tool", tool_call_id: node.callId, content: node.text };
  if (node.role === "user") return { role: "user", content: contentOf(node) };
  const message = { role: "assistant", content: node.text };
  if (node.thought) message.reasoning_content = node.thought;
  if (node.calls?.length) {
    message.tool_calls = node.calls.map(({ id, name, arguments: given }) => ({
      id,
      type: "function",
      function: { name, arguments: given },
    }));
  }
  return message;
}

function contentOf({ text, files = [], edit = "" }) {
  const texts = files
    .filter((file) => file.kind === "text")
    .map(({ name, data }) => `${name}\n${fenced(data)}`);
  const whole = [...texts, text, ...(edit ? [fenced(edit)] : [])].filter(Boolean).join("\n\n");
  const pictures = files.filter((file) => file.kind === "picture");
  if (!pictures.length) return whole;
  const parts = pictures.map(({ data }) => ({ type: "image_url", image_url: { url: data } }));
  return [...parts, { type: "text", text: whole }];
}

/** The whole request for the answer to a leaf, or to a message after it that is not yet sent. */
export function requestFor(conversation, model, leaf = conversation.leaf, unsent = null) {
  const settings = settingsOf(conversation.settings);
  const nodes = [...path(conversation, leaf), ...(unsent ? [{ role: "user", ...unsent }] : [])];
  const system = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
  const edit = nodes.findLast((node) => node.role === "user")?.edit;
  const functions = tools(settings.tools);
  return {
    model,
    messages: [...system, ...nodes.map(wire)],
    stream: true,
    stream_options: { include_usage: true },
    return_progress: true,
    localspec: drafting(settings),
    ...settings.sampling,
    ...limits(settings),
    ...thinking(settings),
    ...(functions.length ? { tools: functions } : {}),
    ...(settings.schema.trim() ? { response_format: schema(settings.schema) } : {}),
    ...(edit ? { prediction: { type: "content", content: edit } } : {}),
    ...(settings.alternatives > 0 ? { logprobs: true, top_logprobs: settings.alternatives } : {}),
  };
}

function drafting({ drafts, proposer, depth }) {
  if (!drafts) return { trace: true, plain: true };
  return {
    trace: true,
    ...(proposer.trim() ? { proposer: proposer.trim() } : {}),
    ...(depth === "" ? {} : { depth: Number(depth) }),
  };
}

function limits({ maxTokens, seed, stop, banned }) {
  return {
    ...(maxTokens === "" ? {} : { max_tokens: Number(maxTokens) }),
    ...(seed === "" ? {} : { seed: Number(seed) }),
    ...(stop.length ? { stop } : {}),
    ...(banned.length ? { banned_strings: banned } : {}),
  };
}

function thinking({ think, budget }) {
  return {
    ...(think ? { enable_thinking: think === "on" } : {}),
    ...(budget === "" ? {} : { reasoning_budget_tokens: Number(budget) }),
  };
}
