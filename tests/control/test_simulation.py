"""The controller on hardware that is not at hand: near the best fixed depth, never below plain."""

from __future__ import annotations

import pytest

from simulation.__main__ import COLD, NEAR, PLAIN, trial
from simulation.hardware import CURVES
from simulation.texts import invented

GOOD, BAD = 0.9, 0.15
CHANCE = 0.04  # by which so few and short texts may differ from what `scripts/simulate` tries


def tried(stretches, hardware, drafting):
    return trial(invented("a text", stretches)[:2], hardware, drafting)


@pytest.mark.parametrize("hardware", CURVES)
@pytest.mark.parametrize(("rate", "drafting"), [(0.2, 0.1), (0.7, 0.1), (0.9, 0.0), (0.8, 0.05)])
def test_it_is_near_the_best_fixed_depth_and_never_below_plain(hardware, rate, drafting):
    found = tried([(1500, rate)], hardware, drafting)
    assert found.near >= NEAR - CHANCE
    assert found.speed >= PLAIN
    assert found.cold >= COLD


@pytest.mark.parametrize(
    ("hardware", "drafting"),
    [("gpu", 0.05), ("old metal", 0.0), ("experts", 0.05), ("cpu q8_0", 0.0), ("cpu q4_k_m", 0.05)],
)
def test_it_follows_a_text_that_changes(hardware, drafting):
    found = tried([(500, BAD), (1500, GOOD), (500, BAD)], hardware, drafting)
    assert found.back >= NEAR - CHANCE
    assert found.speed >= max(PLAIN, (NEAR - CHANCE) * found.best)


@pytest.mark.parametrize("hardware", CURVES)
def test_a_drafter_that_is_never_worth_it_costs_next_to_nothing(hardware):
    found = tried([(1500, 0.3)], hardware, 0.5)
    assert found.best == 1
    assert found.speed >= PLAIN
    assert found.cold >= COLD


def test_it_beats_every_fixed_depth_where_texts_alternate():
    assert tried([(40, 0.3), (40, 0.95)] * 15, "gpu", 0.1).near > 1.05
