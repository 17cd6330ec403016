from __future__ import annotations

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.decoding.turn import Outcome
from localspec.core.engine.engine import Engine, EngineParts
from localspec.core.engine.figures import Ledger
from localspec.core.engine.settings import Settings
from localspec.core.engine.speedup import MIN_PLAIN, gain
from localspec.core.proposers.ngram import NgramProposer
from localspec.interfaces.costs import Batch, Costs
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
    found = reply(("ngram", 4, 2))
    assert gain(busy, found) == pytest.approx(gain(before, found), rel=0.05)


def test_a_result_tells_what_it_gained_where_costs_are_known():
    want = Want([1, 2, 3], Settings(max_tokens=40))
    parts = EngineParts(costs=COSTS)
    [known] = converse(Engine(scripted(), NgramProposer(3, 1), parts=parts), [want])
    [unknown] = converse(Engine(scripted(), NgramProposer(3, 1)), [want])
    assert known.speculation.speedup == gain(COSTS, known.speculation) > 0
    assert unknown.speculation.speedup is None
