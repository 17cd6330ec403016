// The server's metrics, read from the text that Prometheus reads.
const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** Read samples by name: `[{labels, value}]`. */
export function metrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const [, name, labels = "", value] = match;
    const read = [...labels.matchAll(LABEL)].map(([, label, quoted]) => [
      label,
      quoted.replace(/\\(.)/g, (_, sign) => (sign === "n" ? "\n" : sign)),
    ]);
    if (!samples.has(name)) samples.set(name, []);
    samples.get(name).push({ labels: Object.fromEntries(read), value: Number(value) });
  }
  return samples;
}

/** Sum up the samples of a name whose labels are as given. */
export function total(samples, name, labels = {}) {
  return (samples.get(name) ?? [])
    .filter((sample) =>
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
    )
    .reduce((sum, sample) => sum + sample.value, 0);
}

/** Drafted and accepted tokens by proposer, then by place in the draft, the first one first. */
export function acceptance(samples, model) {
  const byProposer = new Map();
  const add = (name, field) => {
    for (const { labels, value } of samples.get(name) ?? []) {
      if (labels.model !== model) continue;
      if (!byProposer.has(labels.proposer)) byProposer.set(labels.proposer, new Map());
      const places = byProposer.get(labels.proposer);
      const counts = places.get(labels.position) ?? { drafted: 0, accepted: 0 };
      places.set(labels.position, { ...counts, [field]: value });
    }
  };
  add("localspec_drafted_total", "drafted");
  add("localspec_accepted_total", "accepted");
  const first = ([position]) => parseInt(position, 10);
  return new Map(
    [...byProposer].map(([by, places]) => [
      by,
      new Map([...places].sort((one, other) => first(one) - first(other))),
    ]),
  );
}

/** What was decoded since the server started: in replies that ended, and in those of the slots. */
export function decoded(samples, slots, model) {
  const live = (field) => slots.reduce((sum, slot) => sum + (slot[field] ?? 0), 0);
  const ended = (name) => total(samples, `localspec_${name}_total`, { model });
  return {
    tokens: ended("tokens") + live("n_decoded"),
    rounds: ended("rounds") + live("n_rounds"),
    drafted: ended("drafted") + live("n_drafted"),
    accepted: ended("accepted") + live("n_accepted"),
  };
}

/** What a machine took between two readings, in watts, and per token where a model wrote any. */
export function taken(before, now) {
  const seconds = before && now ? now.seconds - before.seconds : 0;
  if (seconds <= 0) return "";
  const joules = now.joules - before.joules;
  const tokens = now.model === before.model ? now.tokens - before.tokens : 0;
  const each = tokens > 0 ? `, ${(joules / tokens).toFixed(2)} J a token` : "";
  return ` The machine takes ${(joules / seconds).toFixed(0)} W${each} (${now.of.join(", ")}).`;
}
