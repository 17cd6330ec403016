"""The textbook's formulas, held against sums done another way."""

from __future__ import annotations

import random
from statistics import fmean

import pytest

from localspec.apps.bench.reply import Round
from localspec.apps.bench.theory import costs, forecast, tokens_a_round
from tests.apps.bench.invented import ALL_RIGHT, HALF_RIGHT, PLAIN_ROUND

FORWARDS = {0: 0.9, 4: 1.7}


def played(chance, drafted, seconds, rng):
    """A round in which each draft token is right with the same chance."""
    accepted = 0
    while accepted < drafted and rng.random() < chance:
        accepted += 1
    return Round(drafted, accepted, accepted + 1, seconds, 0.9 * seconds)


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("drafted", [0, 1, 5])
def test_a_round_emits_one_token_and_every_draft_token_whose_forerunners_were_right(
    chance, drafted
):
    assert tokens_a_round(chance, drafted) == pytest.approx(
        sum(chance**at for at in range(drafted + 1))
    )


def test_where_draft_tokens_are_independent_the_prediction_comes_true():
    """Many rounds draft nothing, where the formula at the mean length would fail."""
    rng = random.Random(5)
    rounds = [played(0.8, rng.choice([0, 0, 0, 2, 8]), 0.02, rng) for _ in range(20_000)]
    predicted = forecast(rounds, 0.01, {0: 1.8, 2: 1.8, 8: 1.8})
    emitted = fmean(each.emitted for each in rounds)
    assert predicted.chance == pytest.approx(0.8, abs=0.01)
    assert predicted.tokens == pytest.approx(emitted, rel=0.01)
    assert predicted.speedup == pytest.approx(emitted / 2, rel=0.01)
    at_the_mean = tokens_a_round(predicted.chance, fmean(each.drafted for each in rounds))
    assert at_the_mean > 1.2 * emitted


def test_what_follows_a_wrong_token_is_not_counted_against_it():
    assert forecast([HALF_RIGHT] * 3, 0.01, FORWARDS).chance == pytest.approx(2 / 3)


def test_draft_tokens_that_the_end_of_a_reply_cut_off_are_not_counted_as_wrong():
    ended = Round(4, 2, 2, 0.02, 0.017)
    assert forecast([ended], 0.01, FORWARDS).chance == 1
    assert forecast([ALL_RIGHT], 0.01, FORWARDS).chance == 1


def test_without_drafts_a_round_is_a_plain_one():
    predicted = forecast([PLAIN_ROUND], 0.01, FORWARDS)
    assert predicted.chance is None
    assert predicted.tokens == 1
    assert (predicted.forward, predicted.rest) == (pytest.approx(0.9), pytest.approx(0.1))
    assert predicted.speedup == pytest.approx(1)


def test_a_round_costs_what_such_forwards_take_and_its_own_rest():
    """The forward of these rounds took 0.017 s, which is not what the prediction is to know."""
    slow = Round(4, 2, 3, 0.060, 0.050)
    predicted = forecast([slow, PLAIN_ROUND], 0.01, FORWARDS)
    assert predicted.forward == pytest.approx((1.7 + 0.9) / 2)
    assert predicted.rest == pytest.approx((1.0 + 0.1) / 2)
    assert predicted.speedup == pytest.approx(
        predicted.tokens / (predicted.forward + predicted.rest)
    )


def test_costs_are_medians_by_how_many_tokens_were_verified():
    timed = [
        ([ALL_RIGHT, PLAIN_ROUND], 0.01),
        ([HALF_RIGHT], 0.0085),
        ([Round(4, 0, 1, 1, 1)], 0.01),
    ]
    assert costs(timed) == {0: pytest.approx(0.9), 4: pytest.approx(2.0)}
