"""What a head promises, by costs and by how it has learned so far."""

from __future__ import annotations

import pytest

from localspec.apps.training.promise import HeldOut, speedup, verdict
from localspec.interfaces.costs import Costs

COSTS = Costs({1: 1.0, 2: 1.1, 6: 1.5}, {"eagle3": {1: 0.1, 5: 0.5}})


def test_the_speed_is_that_of_the_draft_length_that_pays_most():
    assert speedup(COSTS, (0.0,) * 5) == pytest.approx(1 / 1.2)
    assert speedup(COSTS, (0.5, 0.0, 0.0, 0.0, 0.0)) == pytest.approx(1.5 / 1.2)
    assert speedup(COSTS, (1.0,) * 5) == pytest.approx(6 / 2.0)


def measured(*speeds):
    return [HeldOut(100 * 2**at, (0.5,), (0.5,), speed) for at, speed in enumerate(speeds)]


def close_together(*speeds):
    return [HeldOut(1000 + 100 * at, (0.5,), (0.5,), speed) for at, speed in enumerate(speeds)]


def test_a_training_goes_on_while_its_speed_rises_and_ends_when_it_has_stopped_rising():
    assert verdict(close_together(1.0, 1.05, 1.1, 1.15)) == ""
    assert "would add" in verdict(close_together(1.2, 1.2, 1.2, 1.2))
    assert "0.0% of speed" in verdict(close_together(1.3, 1.25, 1.2, 1.2))


def test_a_few_measurements_or_early_ones_say_nothing_of_the_trend():
    even = close_together(1.2, 1.2, 1.2, 1.2)
    assert verdict(close_together(1.2, 1.2, 1.2)) == ""
    assert verdict(measured(1.2, 1.2, 1.2, 1.2, 1.2)) == ""  # of the later half there are two
    assert verdict([held_out._replace(step=9 + held_out.step // 10) for held_out in even]) == ""
