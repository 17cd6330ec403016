"""Drafts of a model's own tokens: drawn from its likely ones, as its target would draw them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from localspec.base.errors import BackendError
from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Roll, Row
from localspec.interfaces.draft_stopping import likely
from localspec.interfaces.forward_loop import REACH, RolledRow, roll_by_forward
from localspec.interfaces.testing import ScriptedModel, hashed_logits

VOCABULARY = 5000
PROMPT = tokens_of([1, 2, 3])
SAMPLINGS = {
    "greedy": GREEDY,
    "cool": Sampling(0.7),
    "hot": Sampling(1.5),
    "top-k": Sampling(1.0, top_k=20),
    "top-p": Sampling(1.0, top_p=0.9),
    "min-p": Sampling(1.0, min_p=0.05),
    "penalised": Sampling(0.8, repetition=1.3, presence=0.5),
    "typical": Sampling(0.8, typical=0.9),
    "biased": Sampling(1.0, bias={7: 9.0}),
}


def sharp_logits(seed):
    """A row as models have them: few likely tokens, and a long tail far below."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, VOCABULARY)
    logits[rng.integers(0, VOCABULARY, 40)] += np.linspace(8, 14, 40)
    return logits.astype(np.float32)


def sampler(sampling, seed):
    return Sampler(sampling, seed, PROMPT)


def path(sampling, seed, depth=4):
    return RolledRow(Roll(Row(0, PROMPT), depth, sampler(sampling, seed), len(PROMPT)))


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_draft_of_the_same_logits_is_what_the_target_draws(sampling):
    for seed in range(60):
        drawn, judge = path(sampling, seed), sampler(sampling, seed)
        for at in range(3):
            row = sharp_logits(3 * seed + at)
            drawn.draw(row)
            token = judge.distribution(row, drawn.tokens[:at]).draw(judge.dice, len(PROMPT) + at)
            assert drawn.tokens[at] == token


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_confidence_in_a_token_is_its_probability_at_temperature_one(sampling):
    for seed in range(20):
        drawn, row = path(sampling, seed), sharp_logits(seed)
        drawn.draw(row)
        adjusted = sampler(sampling, seed).adjusted(row, ())
        weights = np.exp(adjusted.astype(np.float64))
        probability = weights[drawn.tokens[0]] / weights.sum()
        assert drawn.confidences[0] == pytest.approx(probability, rel=0.01)


def test_tokens_far_below_the_likeliest_are_not_drafted():
    """Even where the numbers of thousands of them are lower than those of all likely ones."""
    logits = np.full(VOCABULARY, -REACH - 0.01, np.float32)
    logits[[3, 4]] = 0.0
    tail, drawn = 0, set[int]()
    for seed in range(2000):
        one, judge = path(Sampling(1.0), seed), sampler(Sampling(1.0), seed)
        one.draw(logits)
        drawn.update(one.tokens)
        tail += judge.distribution(logits).draw(judge.dice, len(PROMPT)) not in (3, 4)
    assert drawn == {3, 4}
    assert 0 < tail < 60  # of 2,000 by weights 30


def test_what_is_no_number_is_refused():
    row = sharp_logits(0)
    row[9] = np.nan
    with pytest.raises(BackendError, match="nan for token 9"):
        path(Sampling(1.0), 0).draw(row)


class Stepping(ScriptedModel):
    """A model that takes several steps by itself, and notes for which slots."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.begun = []

    def multi_step(self, slots, tokens, choose):
        self.begun.append(list(slots))
        while tokens:
            pairs = zip(slots, tokens, strict=True)
            rows = ScriptedModel.forward(self, [Row(s, tokens_of([t])) for s, t in pairs])
            tokens = choose([row[0] for row in rows])

    def forward(self, rows):
        self.begun.append("forward")
        return super().forward(rows)


@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_steps_draft_what_forwards_would_and_leave_as_much_held(floor):
    def rolls():
        make = partial(Sampler, Sampling(1.0))
        return [
            Roll(Row(slot, PROMPT), depth, make(slot, PROMPT), 3, likely(floor))
            for slot, depth in ((0, 6), (1, 2), (2, 6), (3, 1))
        ]

    stepping, plain = Stepping(hashed_logits(1)), ScriptedModel(hashed_logits(1))
    drafts = roll_by_forward(stepping, rolls(), steps=stepping)
    expected = roll_by_forward(plain, rolls())
    assert [d.tokens.tolist() for d in drafts] == [d.tokens.tolist() for d in expected]
    assert [d.confidences for d in drafts] == [d.confidences for d in expected]
    assert stepping.held == plain.held
    assert stepping.begun.count("forward") == 1
    if not floor:
        assert stepping.begun[1:] == [[0, 1, 2], [0, 2]]
