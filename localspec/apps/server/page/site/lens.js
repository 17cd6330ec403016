// Who drafted what in an answer: its rounds and the tokens of each, as the stream traces them.
const MAX_LOOK = 16; // reported tokens that may have no characters of their own, in a row
const NOW_MS = 1500; // of the newest rounds, by which the speed of now is measured
const MIN_PLAIN = 4; // rounds without drafts that an estimate of plain decoding needs
const TARGET = "target";

// By their names in the server: a name for people, and a description.
const SOURCES = new Map([
  [TARGET, ["the model itself", "written without a draft"]],
  ["draft-model", ["small model", "drafted by the small model beside it"]],
  ["ngram", ["earlier words", "words that followed the same words before (ngram)"]],
  ["suffix", ["earlier text", "what followed the same text before (suffix)"]],
  ["corpus", ["files", "what stands in files and replies on disk (corpus)"]],
  ["prediction", ["text to edit", "taken from the text to be edited (prediction)"]],
  ["forced", ["no choice", "the only text that the schema or the budget allows (forced)"]],
]);

/** Name a source for people. */
export const nameOf = (by) => SOURCES.get(by)?.[0] ?? by;

/** Describe a source. */
export const about = (by) => SOURCES.get(by)?.[1] ?? "a drafting head, or a plug-in";

/** The class that gives a source its colour. */
export const classOf = (by) => `by-${SOURCES.has(by) ? by : "head"}`;

/**
 * Rows of `rounds` are {drafted, accepted, by, ms, count, rejected}: one round, or `count` alike
 * without drafts, of which `ms` is the time together; `rejected` is a text. Rows of `said` are
 * {length, by, round, likely}: a token's characters, its source, its row of `rounds`, and the
 * likeliest tokens if asked for.
 */
export class Lens {
  constructor({ rounds = [], said = [], thought = [] } = {}) {
    Object.assign(this, { rounds, said, thought });
    this.likely = []; // of tokens whose characters did not come yet
  }

  /** Take characters of which nothing is known for the model's own, up to these lengths. */
  fill(lengths) {
    for (const [kind, length] of Object.entries(lengths)) {
      const known = this[kind].reduce((sum, row) => sum + row.length, 0);
      if (known < length) this[kind].push(this.#row(length - known, TARGET));
    }
  }

  #row(length, by, likely = null) {
    return { length, by, round: Math.max(this.rounds.length - 1, 0), likely };
  }

  get record() {
    return { rounds: this.rounds, said: this.said, thought: this.thought };
  }

  /** Note one event of a stream; `kind` is where its text belongs. Returns the new rows. */
  note(trace, kind, text, logprobs) {
    if ("by" in trace) this.rounds.push(roundOf(trace));
    for (const entry of logprobs ?? []) this.likely.push(likelyOf(entry));
    if (!text) return [];
    const rows = this.#rows(trace.said ?? [[text.length, TARGET]], [...text]);
    this[kind].push(...rows);
    return rows;
  }

  /** Split a text by its sources. The server counts characters; strings here count halves. */
  #rows(said, characters) {
    let at = 0;
    const rows = said.map(([count, by]) => {
      const text = characters.slice(at, at + count).join("");
      at += count;
      return this.#row(text.length, by, this.#taken(text));
    });
    const rest = characters.slice(at).join("");
    if (rest) rows.push(this.#row(rest.length, TARGET));
    return rows;
  }

  #taken(text) {
    const at = this.likely.slice(0, MAX_LOOK).findIndex((entry) => entry[0].token === text);
    return at < 0 ? null : this.likely.splice(0, at + 1).at(-1);
  }

  /** Whether anything was drafted. */
  get drafted() {
    return this.rounds.some((round) => round.drafted > 0);
  }

  /** Count the tokens by source, in the order in which they first came. */
  sources() {
    const counts = new Map();
    const add = (by, count) => counts.set(by, (counts.get(by) ?? 0) + count);
    for (const { by, drafted, accepted, count } of this.rounds) {
      add(TARGET, count);
      if (drafted) add(by, accepted);
    }
    return counts;
  }

  /** Tokens a second in the newest rounds; null before there are any with a time. */
  speed() {
    let [ms, tokens] = [0, 0];
    for (let at = this.rounds.length - 1; at > 0 && ms < NOW_MS; at -= 1) {
      const round = this.rounds[at];
      ms += round.ms;
      tokens += round.accepted + round.count;
    }
    return ms ? (1000 * tokens) / ms : null;
  }

  /** Tokens a second of the rounds without drafts; null where there were too few. */
  plainSpeed() {
    let [ms, count] = [0, 0];
    for (const round of this.rounds.slice(1)) {
      if (round.drafted || !round.ms) continue;
      ms += round.ms;
      count += round.count;
    }
    return count >= MIN_PLAIN ? (1000 * count) / ms : null;
  }
}

function roundOf({ drafted = 0, accepted = 0, by = TARGET, ms = 0, rounds = 1, rejected = "" }) {
  return { drafted, accepted, by: drafted ? by : TARGET, ms, count: rounds, rejected };
}

/** The token that was chosen, then the likeliest ones, with their probabilities. */
function likelyOf({ token, logprob, top_logprobs: top = [] }) {
  return [{ token, logprob }, ...top].map((entry) => ({
    token: entry.token,
    share: Math.exp(entry.logprob),
  }));
}

/** Describe a row of rounds in a line. */
export function sentence(round, number) {
  const span = number === 1 ? " with the prompt" : round.count > 1 ? " each" : "";
  const time = round.ms ? `, ${milliseconds(round.ms / round.count)}${span}` : "";
  if (round.count > 1) return `${round.count} rounds without drafts${time}`;
  if (!round.drafted) return `Round ${number}: nothing drafted${time}`;
  const rejected = round.drafted - round.accepted;
  return (
    `Round ${number}: ${round.drafted} drafted (${nameOf(round.by)}), ${round.accepted} accepted, ` +
    `${rejected} rejected${time}`
  );
}

function milliseconds(ms) {
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}
