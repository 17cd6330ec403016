"""Cost curves: surprises, and expectations before anything was measured."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.interfaces.costs import CLAMP, Attention, Batch, Costs, Curve

SIZES = st.integers(1, 64)
SECONDS = st.floats(1e-4, 10)


def rising(curve):
    seconds = curve.stretch(1, 80)
    return all(b >= a - 1e-12 for a, b in pairwise(seconds))


def test_between_measured_sizes_a_curve_is_straight_and_goes_on_beyond_them():
    curve = Curve({1: 1.0, 5: 2.0, 9: 2.4})
    assert curve.stretch(1, 11) == pytest.approx(
        [1.0, 1.25, 1.5, 1.75, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6]
    )
    assert curve.stretch(7, 7) == pytest.approx([curve.at(7)])


@given(st.lists(st.tuples(SIZES, SECONDS), max_size=40))
def test_more_never_takes_less_whatever_was_measured(notes):
    curve = Curve({1: 0.01, 9: 0.02})
    for size, seconds in notes:
        curve.note(size, seconds)
        assert rising(curve)


def test_a_curve_goes_on_beyond_a_step_as_it_came_to_it():
    """Blocks of 16 tokens take little, so that from 16 to 17 is a step."""
    curve = Curve({1: 40.0, 9: 290.0, 16: 290.0, 17: 346.0})
    assert curve.at(33) == pytest.approx(346 + 16 * 7)
    assert curve.at(16) == pytest.approx(290.0)
    for _ in range(40):
        curve.note(126, 1800.0)
        curve.note(130, 1800.0)
    assert 4500 < curve.at(512) < 9000


def test_sizes_that_differ_little_share_the_point_that_was_measured():
    curve = Curve({1: 1.0, 129: 10.0, 257: 20.0})
    for size in (127, 131, 129):
        curve.note(size, 11.0)
    assert list(curve.points()) == [1, 129, 257]


def test_a_curve_that_was_measured_falling_is_taken_for_flat():
    assert rising(Curve({1: 2.0, 5: 1.0, 9: 3.0}))


def test_one_hiccup_hardly_counts():
    curve = Curve({1: 1.0, 9: 2.0})
    curve.note(4, 100.0)
    assert curve.at(4) < 1.375 * CLAMP**0.3
    assert curve.at(1) < 1.05


def test_what_stays_is_soon_believed():
    curve = Curve({1: 1.0, 9: 2.0})
    for _ in range(25):
        curve.note(1, 1.0)
        curve.note(5, 8.0)
    assert curve.at(5) / curve.at(1) == pytest.approx(8, rel=0.15)


def test_a_slower_machine_is_thought_slower_at_sizes_that_were_not_seen_since():
    curve = Curve({1: 1.0, 5: 2.0, 9: 3.0})
    for _ in range(60):
        for size in (1, 5):
            curve.note(size, 3.0 * (1.0 if size == 1 else 2.0))
    assert curve.at(9) > 6.5
    assert curve.at(5) / curve.at(1) == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_time_is_not_noted(seconds):
    curve = Curve({1: 1.0, 9: 2.0})
    curve.note(1, seconds)
    assert curve.at(1) == 1.0


def test_more_rows_begin_with_what_fewer_took_and_learn_apart():
    costs = Costs({1: 1.0, 9: 2.0})
    assert costs.target(4).at(8) == costs.target(1).at(8)
    for _ in range(30):
        costs.target(4).note(8, 9.0)
    assert costs.target(5).at(8) > 4 * costs.target(1).at(8)


FOUR = Batch(4)


def rounds_of_four(plain, wide, every, rounds=60):
    """Learn from rounds of 4 rows with 4 draft tokens, each so manieth without."""
    costs = Costs({1: 1.0, 4: 1.6, 8: 2.4})
    for at in range(rounds):
        tokens = 4 if at % every == 0 else 8
        costs.note(FOUR, tokens, plain if tokens == 4 else wide)
    return costs


def test_rows_whose_draft_tokens_are_dearer_make_plain_rounds_no_dearer():
    costs = rounds_of_four(plain=1.6, wide=3.6, every=10)
    assert costs.at(FOUR, 4) == pytest.approx(1.6, rel=0.05)
    assert costs.at(FOUR, 8) == pytest.approx(3.6, rel=0.1)
    assert costs.at(FOUR, 6) > 1.3 * 2.0  # other widths are dearer, too


def test_a_busy_machine_makes_rounds_of_all_widths_dearer():
    costs = rounds_of_four(plain=3.2, wide=4.8, every=2)
    assert costs.at(FOUR, 4) == pytest.approx(3.2, rel=0.05)
    assert costs.at(FOUR, 8) == pytest.approx(4.8, rel=0.1)
    assert costs.at(FOUR, 6) == pytest.approx(4.0, rel=0.15)


def test_what_was_copied_from_fewer_rows_is_doubted_before_the_machine_is():
    moved = []
    for batch in (Batch(1), FOUR):
        costs = Costs({1: 1.0, 4: 1.6, 8: 2.4})
        plain, wide = costs.at(batch, batch.rows), costs.at(batch, 2 * batch.rows)
        costs.note(batch, 2 * batch.rows, 1.2 * wide)
        moved.append(costs.at(batch, batch.rows) / plain)
    assert moved[0] > 1.02 > moved[1]


def test_plain_rounds_are_doubted_more_the_longer_only_wide_ones_are_seen():
    costs = Costs({1: 1.0, 4: 1.6, 8: 2.4})
    doubts = [costs.target(4).doubt]
    for _ in range(100):
        costs.note(FOUR, 8, 2.4)
        doubts.append(costs.target(4).doubt)
    costs.note(FOUR, 4, 1.6)
    assert doubts[0] < doubts[10] < doubts[50] < doubts[100]
    assert costs.target(4).doubt < doubts[100] / 1.5


def test_a_wide_round_never_seems_to_take_less_than_a_plain_one():
    costs = Costs({1: 1.0, 4: 1.6, 8: 1.7})
    for _ in range(100):
        costs.note(FOUR, 8, 1.0)
    assert costs.at(FOUR, 5) >= costs.at(FOUR, 4)


def test_a_proposer_never_seen_has_no_price_and_one_that_had_to_catch_up_sets_none():
    costs = Costs()
    assert costs.drafting("oracle", 1) is None
    costs.note_drafting("oracle", 1, 4, 2.0, missed=300)
    assert costs.drafting("oracle", 1) is None
    costs.note_drafting("oracle", 1, 4, 0.4, missed=0)
    assert costs.drafting("oracle", 2).at(4) == pytest.approx(0.4)


def test_looks_that_find_nothing_raise_no_price_beyond_what_they_take():
    costs = Costs()
    costs.note_drafting("lookup", 1, 16, 1e-4, missed=0)
    for _ in range(1000):
        costs.note_drafting("lookup", 1, 0, 8e-5, missed=0)
    curve = costs.drafting("lookup", 1)
    assert curve.at(1) == pytest.approx(8e-5, rel=0.05)
    assert curve.at(16) < 1e-3


def test_catching_up_is_a_price_of_its_own():
    costs = Costs({1: 1.0, 9: 2.0}, {"draft": {1: 0.1, 4: 0.4}}, {"draft": 0.001})
    for _ in range(60):
        costs.note_drafting("draft", 1, 4, 0.4 + 100 * 0.02, missed=100)
    assert costs.reading("draft", 100) == pytest.approx(2.0, rel=0.05)
    assert costs.drafting("draft", 1).at(4) == pytest.approx(0.4)


def test_a_price_of_reading_is_estimated_where_none_was_measured():
    costs = Costs({1: 1.0, 9: 2.0}, {"draft": {1: 0.1, 4: 0.4}})
    assert 0 < costs.reading("draft", 1) < 0.1
    assert costs.reading("nobody", 9) == 0


def test_a_token_behind_a_long_text_costs_what_attention_adds():
    costs = Costs({1: 0.01, 9: 0.02}, attention=Attention(row=1e-6, token=2e-6))
    assert costs.at(Batch(1), 9) == pytest.approx(0.02)
    assert costs.at(Batch(1, held=4000, seen=4000), 9) == pytest.approx(0.02 + 4000 * 19e-6)
    two = Batch(2, held=3000, seen=1500)  # slots of their own: each looks at its own text
    assert costs.at(two, 4) == pytest.approx(0.01 + 0.01 * 3 / 8 + 3000 * 1e-6 + 4 * 1500 * 2e-6)


def test_attention_is_learned_from_long_texts_and_does_not_slow_short_ones():
    costs = Costs({1: 0.01, 9: 0.02}, attention=Attention(row=1e-6, token=1e-6))
    short, long = Batch(1, held=16, seen=16.0), Batch(1, held=8000, seen=8000.0)

    def true(batch, tokens):
        base = 0.01 + 0.01 * (tokens - 1) / 8
        return base + batch.held * (2e-6 + 3e-6 * tokens)

    for _ in range(300):
        for batch in (short, long):
            for tokens in (1, 5, 9):
                costs.note(batch, tokens, true(batch, tokens))
    for batch in (short, long):
        for tokens in (1, 5, 9):
            assert costs.at(batch, tokens) == pytest.approx(true(batch, tokens), rel=0.1)


def test_drafting_is_thought_slower_on_a_slower_machine_even_if_nothing_is_drafted():
    costs = Costs({1: 0.067, 5: 0.179}, {"small": {1: 0.031, 4: 0.124}}, {"small": 0.012})
    for _ in range(40):
        costs.note(Batch(1), 1, 2 * 0.067)
        costs.note(Batch(1), 5, 2 * 0.179)
    assert costs.drafting("small", 1).at(4) == pytest.approx(2 * 0.124, rel=0.05)
    assert costs.reading("small", 100) == pytest.approx(2 * 1.2, rel=0.05)
    costs.note(Batch(2), 2, 9.0)  # of several rows: they take longer anyway
    assert costs.drafting("small", 1).at(4) == pytest.approx(2 * 0.124, rel=0.05)


def test_drafting_that_was_timed_in_a_round_does_not_follow_the_round_as_well():
    costs = Costs({1: 0.01, 5: 0.02}, {"small": {1: 0.001, 4: 0.004}})
    for _ in range(3):
        costs.note_drafting("small", 1, 4, 0.004, 0)
        costs.note(Batch(1), 5, 0.03)
    assert costs.drafting("small", 1).at(4) == pytest.approx(0.004)
    costs.note(Batch(1), 5, 0.03)
    assert costs.drafting("small", 1).at(4) > 0.0041


def test_reading_without_a_draft_takes_no_draft_s_time():
    costs = Costs({1: 0.01, 5: 0.02}, {"small": {1: 0.1, 4: 0.4}}, {"small": 0.01})
    for _ in range(9):
        costs.note_drafting("small", 1, 0, 0.32, missed=32)
    assert costs.reading("small", 32) == pytest.approx(0.32)


def test_costs_know_how_much_slower_a_plain_round_became():
    costs = Costs({1: 0.01, 5: 0.02})
    assert costs.slowdown == 1
    for _ in range(40):
        costs.note(Batch(1), 1, 0.007)
    assert costs.slowdown == pytest.approx(0.7, rel=0.02)
