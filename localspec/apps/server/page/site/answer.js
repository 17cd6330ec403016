// One answer while it comes: reads the events of its stream into a message of the conversation.
import { Lens } from "./lens.js";

export class Answer {
  /** `node` is the message that grows, from what it has already. */
  constructor(node) {
    const { text = "", thought = "", lens } = node;
    Object.assign(node, {
      text,
      thought,
      calls: [],
      finish: null,
      error: "",
      notices: [],
      figures: null,
    });
    this.node = node;
    this.lens = new Lens(lens ?? {});
    this.lens.fill({ said: text.length, thought: thought.length });
    this.read = null; // the share of the prompt that was read
    this.begun = performance.now();
  }

  /** Take an event of the stream; throws the error that one may hold. */
  take(event) {
    if (event.error) throw new Error(event.error.message ?? "the server failed in mid-answer");
    if (event.prompt_progress) this.#progress(event.prompt_progress);
    if (event.usage || event.timings) this.#figures(event);
    const [choice] = event.choices ?? [];
    if (!choice) return;
    const trace = event.localspec ?? {};
    if (trace.notices?.length) this.node.notices = trace.notices;
    this.#delta(choice.delta ?? {}, trace, choice.logprobs?.content);
    if (choice.finish_reason) this.node.finish = choice.finish_reason;
  }

  #progress({ total, processed }) {
    this.read = total ? processed / total : null;
  }

  #figures({ usage, timings }) {
    this.node.figures = {
      ...this.node.figures,
      ...(usage && { usage }),
      ...(timings && { timings }),
    };
  }

  #delta(delta, trace, logprobs) {
    const thought = delta.reasoning_content ?? "";
    const text = delta.content ?? "";
    if (thought) {
      this.lens.note(trace, "thought", thought, logprobs);
      this.node.thought += thought;
    } else {
      this.lens.note(trace, "said", text, logprobs);
      this.node.text += text;
    }
    for (const call of delta.tool_calls ?? []) this.#call(call);
    if (thought || text || delta.tool_calls) this.read = null;
  }

  #call({ index, id, function: called = {} }) {
    this.node.calls[index] ??= { id: "", name: "", arguments: "" };
    const call = this.node.calls[index];
    call.id ||= id ?? "";
    call.name ||= called.name ?? "";
    call.arguments += called.arguments ?? "";
  }

  /** Close the message: what it keeps of the lens. */
  end({ error = "", stopped = false } = {}) {
    this.node.lens = this.lens.record;
    this.node.error = error;
    if (stopped) this.node.finish = "stopped";
    this.node.calls = this.node.calls.filter(Boolean);
  }
}

/** The figures under an answer, in words. */
export function figures(node) {
  const { usage = {}, timings = {} } = node.figures ?? {};
  const words = [];
  const number = (value) => Math.round(value).toLocaleString("en");
  if (usage.completion_tokens) words.push(`${number(usage.completion_tokens)} tokens`);
  if (timings.predicted_per_second) words.push(speeds(timings));
  if (timings.draft_n) {
    const share = Math.round((100 * timings.draft_n_accepted) / timings.draft_n);
    words.push(
      `${number(timings.draft_n_accepted)} of ${number(timings.draft_n)} drafted accepted (${share}%)`,
    );
  }
  if (timings.draft_n && timings.tokens_per_round)
    words.push(`${timings.tokens_per_round.toFixed(1)} tokens a round`);
  const cached = usage.prompt_tokens_details?.cached_tokens;
  if (usage.prompt_tokens) {
    words.push(
      `prompt ${number(usage.prompt_tokens)}${cached ? `, ${number(cached)} cached` : ""}`,
    );
  }
  if (timings.thoughts_cut) words.push("thought cut at its budget");
  if (node.finish in ENDS) words.push(ENDS[node.finish]);
  return words.join(" · ");
}

const ENDS = {
  length: "length limit reached",
  stopped: "stopped",
  reload: "cut off by a reload",
};

/** Whether an answer ended before its model was done, and has a text to go on from. */
export function isCut({ text, calls, finish, error }) {
  return Boolean(text && !calls?.length && (finish in ENDS || error));
}

function speeds({ predicted_per_second: now, speedup, draft_n: drafted }) {
  const speed = `${now.toFixed(1)} tokens/s`;
  if (!speedup || !drafted) return speed;
  return `${speed}, plain ≈ ${(now / speedup).toFixed(1)} (${speedup.toFixed(2)}× by estimate)`;
}
