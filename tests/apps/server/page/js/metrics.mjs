import assert from "node:assert/strict";
import { test } from "node:test";

const { taken } = await import(`${process.argv[2]}/metrics.js`);

const reading = (seconds, joules, tokens, model = "m") => ({
  of: ["package-0"],
  seconds,
  joules,
  tokens,
  model,
});

test("watts are those between two readings, and joules a token where a model wrote any", () => {
  const before = reading(10, 100, 40);
  assert.equal(
    taken(before, reading(15, 200, 90)),
    " The machine takes 20 W, 2.00 J a token (package-0).",
  );
  assert.equal(taken(before, reading(15, 200, 40)), " The machine takes 20 W (package-0).");
  assert.equal(taken(before, reading(15, 200, 90, "n")), " The machine takes 20 W (package-0).");
});

test("nothing is said of a machine that counts no energy, or of a single reading", () => {
  assert.equal(taken(null, reading(1, 2, 3)), "");
  assert.equal(taken(reading(1, 2, 3), null), "");
  assert.equal(taken(reading(1, 2, 3), reading(1, 2, 3)), "");
});
