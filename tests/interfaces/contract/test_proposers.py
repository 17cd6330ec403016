"""The contract of every proposer."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.proposer import Ask
from tests.runs import PROPOSERS

SAMPLINGS = {"greedy": GREEDY, "sampled": Sampling(temperature=1.0)}


def ask(history, limit=4, slot=0, sampling=GREEDY):
    history = tokens_of(history)
    return Ask(slot, history, limit, Sampler(sampling, seed=5, prompt=history[:2]))


def growing(steps=25):
    """Histories that grow by one to three tokens and repeat themselves now and then."""
    history = [1, 2, 3]
    for step in range(steps):
        history = history + [(step * step) % 7] * (1 + step % 3)
        yield history


# The best of several learns from the text, so its drafts depend on what came before.
@pytest.fixture(params=[name for name in PROPOSERS if name != "best"])
def fresh(request):
    return PROPOSERS[request.param]


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_draft_depends_on_the_history_alone(fresh, name):
    seasoned = fresh()
    for history in growing():
        used = seasoned.propose([ask(history, sampling=SAMPLINGS[name])])[0]
        new = fresh().propose([ask(history, sampling=SAMPLINGS[name])])[0]
        assert used.tokens.tolist() == new.tokens.tolist()
        assert used.by == new.by
        assert used.confidences == pytest.approx(new.confidences)


def test_a_draft_does_not_depend_on_what_was_asked_before_or_in_between(fresh):
    seasoned = fresh()
    for at, history in enumerate(growing()):
        if at % 3 == 0:
            seasoned.propose([ask(history, limit=0)])
            continue
        limit = 1 + at % 5
        used = seasoned.propose([ask(history, limit)])[0].tokens.tolist()
        assert used == fresh().propose([ask(history, limit)])[0].tokens.tolist()


def test_a_released_slot_starts_afresh(fresh):
    proposer = fresh()
    proposer.propose([ask([1, 2, 3, 1, 2, 3, 1, 2])])
    proposer.release(0)
    for other in ([4, 4], [1, 2, 3, 1, 5, 1], [1, 2, 3, 1, 2, 3, 1, 2]):
        used = proposer.propose([ask(other)])[0].tokens.tolist()
        assert used == fresh().propose([ask(other)])[0].tokens.tolist()
        proposer.release(0)


def test_a_slot_does_not_hear_of_the_others(fresh):
    proposer = fresh()
    histories = list(zip(growing(), [h[::-1] + h for h in growing()], strict=True))
    seen = []
    for one, other in histories:
        if seen and other[: len(seen)] != seen:
            proposer.release(3)
        seen = other
        together = proposer.propose([ask(one, slot=0), ask(other, slot=3)])
        alone = [fresh().propose([ask(each)])[0] for each in (one, other)]
        assert [d.tokens.tolist() for d in together] == [d.tokens.tolist() for d in alone]


@pytest.mark.parametrize("limit", [0, 1, 2, 7])
def test_a_draft_keeps_to_its_limit(fresh, limit):
    for history in growing(8):
        assert len(fresh().propose([ask(history, limit)])[0]) <= limit


@pytest.mark.parametrize("length", [1, 2])
def test_the_shortest_histories_are_answered(fresh, length):
    assert len(fresh().propose([ask([3] * length)])) == 1


@pytest.mark.parametrize("name", SAMPLINGS)
def test_a_confidence_is_a_chance_and_every_token_has_one(fresh, name):
    for history in growing(12):
        draft = fresh().propose([ask(history, 7, sampling=SAMPLINGS[name])])[0]
        assert len(draft.confidences) == len(draft)
        assert all(0 < confidence <= 1 for confidence in draft.confidences)


def test_drafts_are_tokens_as_the_seam_has_them(fresh):
    draft = fresh().propose([ask([1, 2, 1, 2, 1])])[0]
    assert draft.tokens.dtype == np.int32
