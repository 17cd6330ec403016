from __future__ import annotations

from types import SimpleNamespace

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.decoding.turn import Outcome
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.figures import Ledger
from localspec.core.requests.settings import Settings
from localspec.core.requests.speedup import MIN_PLAIN, gain, with_waste
from localspec.interfaces.costs import Attention, Batch, Costs
from localspec.interfaces.draft import Draft
from tests.runs import Want, converse, scripted


def seen(costs, rounds=MIN_PLAIN):
    """Let costs see plain rounds as long as expected."""
    for _ in range(rounds):
        costs.note(Batch(1), 1, costs.at(Batch(1), 1))
    return costs


COSTS = seen(Costs({1: 0.010, 2: 0.010, 5: 0.016}, {"small": {1: 0.002, 2: 0.004}}))


def reply(*rounds: tuple[str, int, int]):
    ledger = Ledger()
    for by, drafted, accepted in rounds:
        draft = Draft(tokens_of(list(range(drafted))), by)
        ledger.note(Outcome(None, draft, None, accepted + 1, accepted))
    return ledger.report()


def test_a_reply_without_drafts_came_as_fast_as_plain_decoding():
    assert gain(COSTS, reply(*[("", 0, 0)] * 7)) == 1


def test_a_reply_of_no_tokens_tells_nothing():
    assert gain(COSTS, reply()) is None


def test_nothing_is_claimed_before_some_plain_rounds_were_seen():
    costs = Costs({1: 0.010, 5: 0.016})
    for _ in range(99):
        costs.note(Batch(1), 5, 0.016)
    assert gain(seen(costs, MIN_PLAIN - 1), reply(("ngram", 4, 4))) is None
    assert gain(seen(costs, 1), reply(("ngram", 4, 4))) == pytest.approx(5 * 10 / 16)


def test_a_calibration_on_a_busy_machine_is_no_witness_of_plain_decoding():
    costs = Costs({1: 0.014, 5: 0.016})
    for _ in range(MIN_PLAIN):
        costs.note(Batch(1), 1, 0.010)
        costs.note(Batch(1), 5, 0.016)
    assert gain(costs, reply(("ngram", 4, 4))) == pytest.approx(5 * 10 / 16, rel=0.03)


def test_drafts_that_are_right_gain_and_those_that_are_wrong_lose():
    assert gain(COSTS, reply(("ngram", 4, 4))) == pytest.approx(5 * 10 / 16)
    assert gain(COSTS, reply(("ngram", 4, 0))) == pytest.approx(10 / 16)
    assert gain(COSTS, reply(("", 0, 0), ("ngram", 4, 2))) == pytest.approx(4 * 10 / 26)


def test_what_a_draft_model_took_is_paid_for():
    assert gain(COSTS, reply(("small", 4, 4))) == pytest.approx(5 * 10 / (16 + 8))
    uneven = reply(("small", 3, 3), ("small", 1, 1))
    assert gain(COSTS, uneven) == pytest.approx(6 * 10 / (14 + 10 + 8))


def test_a_machine_that_is_busy_does_not_make_drafts_look_worse():
    before, busy = (seen(Costs({1: 0.010, 5: 0.016})) for _ in range(2))
    for size in (1, 5) * 200:
        busy.target(1).note(size, 0.050 if size == 1 else 0.080)
    answer = reply(("ngram", 4, 2))
    assert gain(busy, answer) == pytest.approx(gain(before, answer), rel=0.05)


def test_a_result_tells_what_it_gained_where_costs_are_known():
    want = Want([1, 2, 3], Settings(max_tokens=40))
    parts = EngineParts(costs=COSTS)
    [result] = converse(Engine(scripted(), NgramProposer(3, 1), parts=parts), [want])
    [unknown] = converse(Engine(scripted(), NgramProposer(3, 1)), [want])
    assert result.speculation.speedup == gain(COSTS, result.speculation) > 0
    assert unknown.speculation.speedup is None


def wasted(*texts: tuple[str, int, int], costs=COSTS, held=0) -> list[float]:
    """Return what is wasted of a round of several texts, each with a proposer and its counts."""
    turn = SimpleNamespace(feed=1, generation=SimpleNamespace(cached=held))
    outcomes = [
        Outcome(turn, Draft(tokens_of(list(range(drafted))), by), None, accepted + 1, accepted)
        for by, drafted, accepted in texts
    ]
    return [outcome.wasted_seconds for outcome in with_waste(costs, outcomes)]


def test_nothing_is_wasted_by_drafts_that_are_right_and_by_rounds_without():
    assert wasted(("", 0, 0), ("small", 4, 4)) == [0, 0]


def test_what_is_wasted_is_the_time_beyond_a_draft_that_ends_where_it_was_right():
    assert wasted(("ngram", 4, 0)) == pytest.approx([0.006])
    assert wasted(("ngram", 4, 1)) == pytest.approx([0.006])  # two rows take as long as one
    assert wasted(("ngram", 4, 3)) == pytest.approx([0.002])
    assert wasted(("small", 4, 3)) == pytest.approx([0.002 + 0.002])
    assert wasted(("small", 4, 0)) == pytest.approx([0.006 + 0.008])


def test_texts_share_what_their_round_wasted_by_their_rejected_tokens():
    costs = Costs({1: 0.010, 2: 0.010, 5: 0.016}, {"small": {1: 0.002, 2: 0.004}})
    of_round = costs.at(Batch(3), 11) - costs.at(Batch(3), 7)
    one, other, neither = wasted(("small", 4, 3), ("small", 4, 1), ("ngram", 0, 0), costs=costs)
    assert neither == 0
    assert one == pytest.approx(of_round / 4 + 0.002 / 2)  # two draft at once
    assert other == pytest.approx(of_round * 3 / 4 + 0.006 / 2)


def test_long_texts_waste_more():
    costs = Costs({1: 0.010, 5: 0.016}, attention=Attention(token=1e-6))
    assert wasted(("ngram", 4, 0), costs=costs, held=1000) == pytest.approx([0.006 + 0.004])


def test_a_result_tells_what_its_rounds_wasted_where_costs_are_known():
    want = Want([1, 2, 3], Settings(max_tokens=40, ignore_end=True))
    parts = EngineParts(costs=COSTS)
    one, other = converse(Engine(scripted(), NgramProposer(3, 1), parts=parts), [want] * 2)
    [unknown] = converse(Engine(scripted(), NgramProposer(3, 1)), [want])
    assert one.speculation.taken_back > 0
    assert one.speculation.wasted_seconds > 0
    assert other.speculation.wasted_seconds == pytest.approx(one.speculation.wasted_seconds)
    assert unknown.speculation.wasted_seconds is None
