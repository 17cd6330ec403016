"""Proposers learn the cost of each round, through whatever stands before them."""

from __future__ import annotations

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import RoundCost
from tests.runs import Want, converse, replies, said, scripted

SETTINGS = Settings(max_tokens=6, ignore_end=True)
WANTS = [Want([1, 2, 3, 4], SETTINGS), Want([5, 5], SETTINGS)]


class Learner:
    """Drafts one token, always the same, and keeps the costs that it is told."""

    def __init__(self):
        self.costs = []

    def propose(self, asks):
        return [Draft(tokens_of([0]), "learner") if ask.limit else EMPTY for ask in asks]

    def release(self, slot):
        pass

    def note(self, cost):
        self.costs.append(cost)


THROUGH = {
    "alone": lambda learner: learner,
    "first-of": lambda learner: FirstOf({"learner": learner, "silent": Silent()}),
    "best": lambda learner: Best({"silent": Silent(), "learner": learner}, Depth()),
    "both": lambda learner: FirstOf({"best": Best({"learner": learner}, Depth())}),
}


@pytest.mark.parametrize("way", THROUGH)
def test_a_proposer_is_told_the_cost_of_every_round_once(way):
    learner = Learner()
    now = iter(range(10_000))
    engine = Engine(scripted(), THROUGH[way](learner), 2, clock=lambda: float(next(now)))
    results = converse(engine, WANTS)
    first, *later = learner.costs
    assert first == RoundCost(2, 6, emitted=2, seconds=first.seconds, reads=True, held=6)
    assert not any(cost.reads for cost in later)
    assert sum(cost.emitted for cost in learner.costs) == 12
    assert sum(cost.rows for cost in learner.costs) == sum(r.speculation.rounds for r in results)
    drafted = sum(r.speculation.drafted for r in results)
    assert sum(cost.tokens - cost.rows for cost in later) == drafted
    assert all(cost.seconds > 0 for cost in learner.costs)


def test_a_proposer_without_note_drafts_as_ever():
    class Old:
        propose, release = Learner.propose, Learner.release

    [old] = replies(scripted(), Old(), WANTS[:1])
    [new] = replies(scripted(), Learner(), WANTS[:1])
    assert said([old]) == said([new])
    assert old.speculation.drafted == new.speculation.drafted > 0
