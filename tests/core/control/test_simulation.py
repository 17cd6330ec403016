"""The controller on hardware that is not at hand: near the best fixed depth, never below plain."""

from __future__ import annotations

from functools import partial

import pytest

from simulation.__main__ import COLD, NEAR, PLAIN, trial
from simulation.copies import edited, revised, taken, whole
from simulation.hardware import CURVES, WIDE_CURVES
from simulation.newcomers import trials
from simulation.streams import DEARER, RowsMachine, lookups, rows_speed
from simulation.texts import BLOCK, CHAINED, DRAFT_MODEL, TRAINED, invented
from simulation.world import SimulatedMachine

GOOD, BAD = 0.9, 0.15
CHANCE = 0.04  # by which so few and short texts may differ from what `scripts/simulate` tries


def tried(stretches, hardware, drafting, drafter=DRAFT_MODEL):
    return trial(invented("a text", stretches, drafter, takes=2), hardware, drafting)


@pytest.mark.parametrize("hardware", CURVES)
@pytest.mark.parametrize(("rate", "drafting"), [(0.2, 0.1), (0.7, 0.1), (0.9, 0.0), (0.8, 0.05)])
def test_it_is_near_the_best_fixed_depth_and_never_below_plain(hardware, rate, drafting):
    result = tried([(1500, rate)], hardware, drafting)
    assert result.near >= NEAR - CHANCE
    assert result.speed >= PLAIN
    assert result.cold >= COLD


@pytest.mark.parametrize(
    ("hardware", "drafting"),
    [("gpu", 0.05), ("old metal", 0.0), ("experts", 0.05), ("cpu q8_0", 0.0), ("cpu q4_k_m", 0.05)],
)
def test_it_follows_a_text_that_changes(hardware, drafting):
    result = tried([(500, BAD), (1500, GOOD), (500, BAD)], hardware, drafting)
    assert result.back >= NEAR - CHANCE
    assert result.speed >= max(PLAIN, (NEAR - CHANCE) * result.best)


@pytest.mark.parametrize("hardware", CURVES)
def test_a_drafter_that_is_never_worth_it_costs_next_to_nothing(hardware):
    result = tried([(1500, 0.3)], hardware, 0.5)
    assert result.best == 1
    assert result.speed >= PLAIN
    assert result.cold >= COLD


def test_it_beats_every_fixed_depth_where_texts_alternate():
    assert tried([(40, 0.3), (40, 0.95)] * 15, "gpu", 0.1).near > 1.05


@pytest.mark.parametrize("hardware", ["gpu", "cpu q8_0"])
@pytest.mark.parametrize(
    ("drafter", "rate", "drafting"),
    [(CHAINED, 0.75, 0.06), (TRAINED, 0.85, 0.06), (BLOCK, 0.9, 0.12)],
)
def test_a_head_is_used_as_far_as_it_pays(hardware, drafter, rate, drafting):
    result = tried([(1000, rate)], hardware, drafting, drafter)
    assert result.near >= NEAR - CHANCE
    assert result.speed >= max(PLAIN - 0.01, (NEAR - CHANCE) * result.best)
    assert result.cold >= COLD


def test_a_head_that_pays_again_is_soon_asked_again():
    result = tried([(600, 0.85), (400, 0.2), (600, 0.85)], "cpu q4_k_m", 0.06, CHAINED)
    assert result.back >= NEAR - CHANCE


def test_a_new_draft_model_costs_nothing_if_it_cannot_pay_and_is_soon_used_if_it_pays():
    newcomers = list(trials())
    assert {newcomer.pays for newcomer in newcomers} == {True, False}
    assert [newcomer.line for newcomer in newcomers if not newcomer.met] == []


@pytest.mark.parametrize("hardware", WIDE_CURVES)
@pytest.mark.parametrize(
    ("copy", "least"),
    [(partial(edited, apart=40), 0.75), (revised, 1.0), (partial(whole, length=500), 0.65)],
)
def test_copies_are_drafted_about_as_far_as_is_best(hardware, copy, least):
    result = trial(taken("a text", 2, copy, takes=2), hardware, 0.0)
    assert result.speed >= least * result.best > 1


@pytest.mark.parametrize("beyond", [1.0, DEARER])
@pytest.mark.parametrize("even", [True, False], ids=["one width", "any widths"])
@pytest.mark.parametrize("rows", [2, 4, 8])
def test_several_texts_never_lose_by_drafts(rows, even, beyond):
    """Whether five draft tokens are cheap and nine dear, or all cost more than was foreseen."""
    machine = RowsMachine(SimulatedMachine(WIDE_CURVES["cpu wide"], 0.0), even, beyond)
    for rate, share in ((0.9, 0.2), (0.5, 1.0), (0.95, 1.0)):
        assert rows_speed(lookups(rate, share, rows), machine) >= 0.99


def test_several_texts_win_where_drafts_pay_all_of_them():
    machine = RowsMachine(SimulatedMachine(WIDE_CURVES["cpu wide"], 0.0), even=True)
    assert rows_speed(lookups(0.95, 1.0, 2), machine) > 1.2
