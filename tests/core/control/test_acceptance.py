"""Acceptance rates, learned from drafts that were judged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.tokens import tokens_of
from localspec.core.control.acceptance import FIRST, Acceptances
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler

PROMPT = tokens_of([1, 2, 3])


def sampler(temperature=0.0):
    sampling = Sampling(temperature=temperature) if temperature else GREEDY
    return Sampler(sampling, 0, PROMPT)


def fresh(known=None, slot=0, temperature=0.0):
    return (known or Acceptances()).of_text("who", slot, sampler(temperature), bound=False)


def teach(acceptance, rate, drafts=200, length=4, confidence=0.6, seed=0):
    """Judge so many drafts whose tokens are right at a known rate."""
    rng = np.random.default_rng(seed)
    for _ in range(drafts):
        hits = rng.random(length) < rate
        right = int(np.argmin(hits)) if not hits.all() else length
        judge(acceptance, [confidence] * length, right, length)


def judge(acceptance, confidences, right, judged):
    kinds, _ = acceptance.weigh(confidences)
    acceptance.note(kinds, right, judged)
    acceptance.note_places(right, judged)


def survivals(acceptance, confidences):
    return acceptance.weigh(confidences)[1]


def first(acceptance):
    return acceptance.ahead(1)[0]


def test_before_anything_is_known_a_confidence_is_taken_at_its_word():
    alive = survivals(fresh(), [0.91, 0.52, 0.52])
    assert alive == pytest.approx([0.91, 0.91 * 0.52, 0.91 * 0.52**2], rel=0.01)


@pytest.mark.parametrize("rate", [0.1, 0.4, 0.7, 0.95])
def test_what_a_confidence_is_worth_is_learned(rate):
    acceptance = fresh()
    teach(acceptance, rate)
    assert survivals(acceptance, [0.6])[0] == pytest.approx(rate, abs=0.1)
    assert first(acceptance) == pytest.approx(rate, abs=0.1)


def test_confidences_are_told_apart():
    acceptance = fresh()
    for _ in range(150):
        judge(acceptance, [0.9], 1, 1)
        judge(acceptance, [0.4], 0, 1)
    high, low = (survivals(acceptance, [c])[0] for c in (0.9, 0.4))
    assert high > 0.8
    assert low < 0.2


def test_a_text_that_changes_is_followed():
    acceptance = fresh()
    teach(acceptance, 0.95)
    teach(acceptance, 0.05, drafts=20, seed=1)
    assert first(acceptance) < 0.35
    teach(acceptance, 0.95, drafts=30, seed=2)
    assert first(acceptance) > 0.65


def test_tokens_after_a_wrong_one_tell_nothing():
    once, again = fresh(), fresh()
    judge(once, [0.6, 0.6, 0.6], 1, 3)
    judge(again, [0.6, 0.6], 1, 2)
    assert survivals(once, [0.6] * 3) == survivals(again, [0.6] * 3)
    assert once.ahead(3) == again.ahead(3)


def test_nothing_judged_is_nothing_learned():
    acceptance = fresh()
    before = survivals(acceptance, [0.6])
    judge(acceptance, [0.6, 0.6], 0, 0)
    assert survivals(acceptance, [0.6]) == before


def test_the_next_text_begins_with_what_the_last_showed():
    acceptances = Acceptances()
    for slot in range(4):
        teach(fresh(acceptances, slot), 0.95, drafts=40, seed=slot)
        acceptances.release(slot)
    assert first(fresh(acceptances, 9)) > first(fresh()) + 0.1


def test_a_text_does_not_hear_of_another_while_both_go_on():
    acceptances = Acceptances()
    one, other = fresh(acceptances, 0), fresh(acceptances, 1)
    before = first(other)
    teach(one, 0.05, drafts=10)
    assert first(one) < 0.4
    assert first(other) > before - 0.1


def test_greedy_texts_and_warm_ones_are_told_apart():
    acceptances = Acceptances()
    teach(fresh(acceptances, 0), 0.05)
    acceptances.release(0)
    assert first(fresh(acceptances, 1, temperature=1.0)) == first(fresh(temperature=1.0))


@given(st.lists(st.floats(0, 1), min_size=17, max_size=40))
def test_a_long_draft_is_weighed_as_its_beginning_is(confidences):
    acceptance = fresh()
    teach(acceptance, 0.8)
    kinds, alive = acceptance.weigh(confidences)
    few_kinds, few_alive = acceptance.weigh(confidences[:16])
    assert alive[:16] == pytest.approx(few_alive)
    assert all(kind is few for kind, few in zip(kinds, few_kinds, strict=False))


def test_a_long_draft_teaches_about_what_short_ones_do():
    long, short = fresh(), fresh()
    for _ in range(8):
        judge(long, [0.9] * 64, 63, 64)
        for part in range(4):
            judge(short, [0.9] * 16, 15 if part == 3 else 16, 16)
    lasting = (survivals(acceptance, [0.9] * 40)[-1] for acceptance in (long, short))
    assert next(lasting) == pytest.approx(next(lasting), abs=0.1)


def test_a_run_that_held_for_long_is_told_from_one_that_held_for_some_tokens():
    acceptance = fresh()
    for _ in range(60):
        judge(acceptance, [0.985] * 20, 10, 20)
        judge(acceptance, [0.998] * 200, 200, 200)
    assert survivals(acceptance, [0.998] * 200)[-1] > 0.5 > survivals(acceptance, [0.985] * 20)[-1]


def test_the_tokens_in_a_row_that_were_as_drafted_are_counted():
    acceptance = fresh()
    judge(acceptance, [0.9] * 4, 4, 4)
    judge(acceptance, [0.9] * 20, 17, 17)
    assert acceptance.streak == 21
    judge(acceptance, [0.9] * 4, 2, 3)
    assert acceptance.streak == 0


@given(st.lists(st.floats(0, 1), max_size=20))
def test_to_survive_is_never_more_likely_than_before(confidences):
    alive = survivals(fresh(), confidences)
    assert all(0 <= b <= a <= 1 for a, b in zip([1, *alive], alive, strict=False))


def test_what_is_not_known_yet_is_hoped_for():
    acceptance = fresh()
    hoped = first(acceptance)
    assert hoped > FIRST
    teach(acceptance, FIRST)
    assert first(acceptance) == pytest.approx(FIRST, abs=0.1)
