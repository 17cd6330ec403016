"""Long drafts beside other requests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.round_planner import SHORT_DRAFT
from localspec.core.requests.settings import Settings
from localspec.interfaces.costs import Costs
from localspec.interfaces.draft import Draft
from localspec.interfaces.draft_request import Ask
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from tests.runs import Want, converse

LONG = 400


class Wordy:
    """Drafts as many tokens as it may, none of them right, and remembers how many."""

    def __init__(self) -> None:
        self.limits: list[list[int]] = []

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        self.limits.append([ask.limit for ask in asks])
        return [Draft(tokens_of([7] * ask.limit), "wordy") for ask in asks]

    def release(self, slot: int) -> None:
        pass


def limits(requests: int, seconds: float, costs: Costs | None) -> list[list[int]]:
    """Return the longest drafts of each round, where every round takes so many seconds."""
    model, proposer = ScriptedModel(hashed_logits(1)), Wordy()
    model.batch, model.tentative = 514, 512
    ticks = count(step=seconds / 2)
    engine = Engine(model, proposer, LONG, lambda: next(ticks), EngineParts(costs))
    want = Want([1, 2] * 100, Settings(max_tokens=2 * LONG, ignore_end=True))
    converse(engine, [want] * requests)
    return [of_round for of_round in proposer.limits if of_round and max(of_round) > 0]


def test_a_long_draft_alone_is_as_long_as_it_may_be():
    assert limits(1, 1.0, Costs())[0] == [LONG]


def test_where_depths_are_open_no_reply_waits_for_the_long_draft_of_another():
    slow, fast = (limits(3, seconds, Costs()) for seconds in (1.0, 0.001))
    together = [of_round for of_round in slow if len(of_round) == 3]
    assert len(together) > LONG / 2
    assert all(max(of_round) == SHORT_DRAFT for of_round in together[1:50])
    assert max(max(of_round) for of_round in fast) > 100


def test_long_drafts_fit_into_a_batch_together_and_leave_most_of_it_to_a_prompt():
    """Drafts of 128 tokens for each of eight replies left room for three of them in a batch."""
    model, proposer, length = ScriptedModel(hashed_logits(1)), Wordy(), 2000
    model.batch, model.tentative = 514, 512
    ticks = count(step=0.001)
    engine = Engine(model, proposer, LONG, lambda: next(ticks), EngineParts(Costs()))
    for at in [*range(7), length]:
        prompt = tokens_of([at % 7] * (at + 9))
        job = engine.prepare(prompt, Settings(ignore_end=True), lambda _: None)
        engine.add(job)
        while job.generation.reads:
            engine.step()
    for _ in range(20):
        engine.step()
    reading = [of_round for of_round in proposer.limits if of_round[1:] and min(of_round) == 0]
    assert len(reading) <= length / (3 / 4 * model.batch - 7) + 1
    assert {len(of_round) for of_round in (*reading, *proposer.limits[-20:])} == {8}
    assert min(map(min, proposer.limits[-20:])) > 2 * SHORT_DRAFT


def test_at_a_fixed_depth_drafts_are_as_long_as_alone():
    assert {max(of_round) for of_round in limits(3, 1.0, None)[:100]} == {LONG}


@pytest.mark.parametrize("requests", [1, 2])
def test_a_long_draft_drives_no_text_out_of_a_pool(requests):
    model, proposer = ScriptedModel(hashed_logits(1)), Wordy()
    model.batch, model.tentative = 514, 512
    model.slots, model.context, model.pool = 4, 700, 700
    parts = EngineParts(Costs(), tiers=CacheTiers(Ram(0)))
    engine = Engine(model, proposer, LONG, parts=parts)
    brief = Settings(max_tokens=2, ignore_end=True)
    idle = Want([3, 4, 5] * 100, brief)
    converse(engine, [idle])
    jobs = [
        engine.prepare(tokens_of([at, 2] * 50), Settings(ignore_end=True), lambda _: None)
        for at in range(requests)
    ]
    for job in jobs:
        engine.add(job)
    for _ in range(20):
        engine.step()
    for job in jobs:
        job.cancelled = True
    assert max(map(max, proposer.limits)) > SHORT_DRAFT
    [again] = converse(engine, [idle])
    assert again.usage.cached_tokens > 290
