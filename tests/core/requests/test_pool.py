"""Slots that share a pool: one text may fill it, several wait for each other, none is lost."""

from __future__ import annotations

import itertools

import pytest

from localspec.base.errors import ContextFull
from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Row
from localspec.interfaces.testing import ScriptedModel
from tests import engines
from tests.runs import Want, converse, replies, said, scripted

GB = 1 << 30
POOL = 400


def pooled(slots: int = 4, pool: int = POOL, *, recurrent: bool = False) -> ScriptedModel:
    model = scripted(recurrent=recurrent)
    model.slots, model.context, model.pool = slots, pool, pool
    return model


def wants(lengths, reply: int = 60) -> list[Want]:
    settings = Settings(max_tokens=reply, ignore_end=True)
    return [
        Want([1 + at % 4, *[at % 5, 2, 3] * (n // 3)], settings) for at, n in enumerate(lengths)
    ]


def alone(some: list[Want]) -> list[tuple[int, ...]]:
    return [said(replies(scripted(), Silent(), [each]))[0] for each in some]


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("ram", [0, GB])
@pytest.mark.parametrize("proposer", [Silent, lambda: NgramProposer(3, 1)])
@pytest.mark.parametrize("lengths", [[90] * 4, [300, 30, 200, 9, 90, 120], [9] * 9])
def test_texts_that_do_not_fit_together_are_said_as_if_alone(recurrent, ram, proposer, lengths):
    some = wants(lengths)
    parts = EngineParts(tiers=CacheTiers(Ram(ram), clock=lambda: 0.0))
    engine = Engine(pooled(recurrent=recurrent), proposer(), parts=parts)
    assert said(converse(engine, some)) == alone(some)


def test_one_text_may_fill_the_whole_pool():
    [want] = wants([30], reply=POOL - 31)
    [result] = converse(Engine(pooled(), Silent()), [want])
    assert len(result.tokens) == POOL - 31


def test_the_newest_text_waits_where_several_outgrow_the_pool():
    some = wants([90, 90, 90], reply=100)
    engine = Engine(pooled(), Silent())
    results = converse(engine, some)
    assert said(results) == alone(some)
    assert all(each.usage.cached_tokens == 0 for each in results)
    ends = [each.timings.total for each in results]
    assert ends[0] <= ends[2]


def test_what_idles_leaves_the_pool_while_others_are_answered():
    tiers = CacheTiers(Ram(GB), clock=lambda: 0.0)
    model = pooled()
    engine = Engine(model, Silent(), parts=EngineParts(tiers=tiers))
    first, second = wants([120, 30])
    converse(engine, [first])
    held = len(model.held[0])
    assert held > 120
    converse(engine, [second])
    assert sorted(map(len, model.held.values()))[-1] < held
    assert tiers.bytes > 0
    [again] = converse(engine, [first])
    assert again.usage.cached_tokens > 100


def test_what_idles_stays_where_there_is_no_memory_for_it():
    model = pooled()
    engine = Engine(model, Silent())
    first, second = wants([120, 30])
    converse(engine, [first])
    converse(engine, [second])
    assert max(map(len, model.held.values())) > 120


def test_a_draft_model_frees_what_released_slots_hold_before_it_gives_up():
    draft = pooled(slots=4, pool=200)
    proposer = DraftModelProposer(draft)
    some = wants([60, 60, 60, 60], reply=30)
    texts = said(converse(Engine(scripted(), proposer, 4), some[:2]))
    texts += said(converse(Engine(scripted(), proposer, 4), some[2:]))
    assert texts == alone(some)
    assert draft.forwards > 0


ATTENTION = [name for name in engines.ARCHITECTURES if name != "mamba2"]  # which has no KV cache


@pytest.mark.parametrize("name", ATTENTION)
def test_a_real_pool_that_is_full_says_so_and_goes_on(name):
    model = engines.target(name, slots=2, context=128, shared=True)
    try:
        assert (model.context, model.pool) == (256, 256)
        model.forward([Row(0, tokens_of([3, 5, 7] * 20))])
        before = model.forward([Row(0, tokens_of([4]))])[0].copy()
        for at in itertools.count():
            try:
                model.forward([Row(1, tokens_of([2, 6] * 10))])
            except ContextFull:
                break
            assert at < 20
        model.truncate(1, 0)
        model.truncate(0, 0)
        model.forward([Row(0, tokens_of([3, 5, 7] * 20))])
        again = model.forward([Row(0, tokens_of([4]))])[0]
        assert abs(again - before).max() < 0.05
    finally:
        model.close()
