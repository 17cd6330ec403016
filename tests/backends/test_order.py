"""Slots of one batch are neighbours in llama.cpp's order, whichever others left before."""

from __future__ import annotations

import itertools
from contextlib import closing

import numpy as np
import pytest

from localspec.base.errors import BackendError
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Row
from localspec_llamacpp.bindings.batch import LlamaBatch
from localspec_llamacpp.gathering import PATIENCE
from localspec_llamacpp.order import MOST_BYTES, exchanges
from tests import engines

SLOTS = 6
IDENTITY = list(range(SLOTS))


def exchanged(active, sizes=(1,) * SLOTS, ids=IDENTITY):
    listed = list(ids)
    for one, other in exchanges(active, ids, sizes):
        listed[one], listed[other] = listed[other], listed[one]
    return listed


@pytest.mark.parametrize("count", range(1, SLOTS + 1))
def test_whoever_is_active_comes_to_stand_side_by_side(count):
    for active in itertools.combinations(range(SLOTS), count):
        for ids in (IDENTITY, IDENTITY[::-1], [3, 0, 5, 1, 4, 2]):
            exchange = exchanged(active, ids=ids)
            places = sorted(exchange[slot] for slot in active)
            assert places == list(range(places[0], places[0] + count))
            assert sorted(exchange) == IDENTITY


def test_who_stands_right_is_not_moved():
    assert exchanges([1, 2, 3], IDENTITY, [1] * SLOTS) == []
    assert exchanges([0, 1, 2, 5], IDENTITY, [1] * SLOTS) in ([(5, 3)], [(5, 4)])


def test_what_takes_long_to_move_stays():
    large = MOST_BYTES // 2 + 1
    assert exchanges([0, 2], IDENTITY, [large] * SLOTS) == []
    assert exchanges([0, 2], IDENTITY, [1] * SLOTS) == [(2, 1)]


def test_texts_go_on_as_before_when_others_leave_from_between_them():
    texts = random_texts(4)
    with closing(engines.target("llama", slots=1, context=256)) as model:
        expected = [fed(model, 0, text)[-1] for text in texts]
    with closing(engines.target("llama", slots=4, context=256, shared=False)) as model:
        for slot, text in enumerate(texts):
            model.forward([Row(slot, text[:40])])
        for at in range(40, 60):
            left = (0, 1, 2, 3) if at < 45 else (0, 2, 3) if at < 50 else (0, 3)
            found = model.forward([Row(slot, texts[slot][at : at + 1]) for slot in left])
        assert model._context.memory.ids != [0, 1, 2, 3]
        for slot, logits in zip(left, found, strict=True):
            assert np.allclose(logits[-1], expected[slot], rtol=0, atol=0.01)
        # Who was moved aside has lost nothing.
        assert np.allclose(fed(model, 2, texts[2], 50)[-1], expected[2], rtol=0, atol=0.01)


@pytest.mark.parametrize("bit_exact", [True, False])
def test_a_text_that_was_moved_is_summed_up_in_the_same_order(bit_exact):
    first, second = random_texts(2)
    with closing(engines.target("llama", slots=3, shared=False, bit_exact=bit_exact)) as model:
        expected = fed(model, 0, first)
        model.truncate(0, 45)
        model.forward([Row(1, second[:30])])
        assert model._context.memory.exchange(0, 1)
        assert model._context.memory.exchange(2, 0)
        assert model._context.memory.ids == [2, 0, 1]
        assert np.array_equal(fed(model, 0, first, 45), expected[5:])
        model.truncate(1, 20)
        model.forward([Row(1, second[20:40])])
        assert np.array_equal(fed(model, 1, second, 40), fed(model, 2, second))


def test_what_could_not_be_moved_is_known_to_be_lost(monkeypatch):
    first, second = random_texts(2)
    with closing(engines.target("llama", slots=3, context=256, shared=False)) as model:
        model.forward([Row(0, first[:40])])
        model.forward([Row(2, second[:40])])
        monkeypatch.setattr(model._context.memory, "refill", lambda slot, data: False)
        for at in range(40, 40 + PATIENCE):
            model.forward([Row(0, first[at : at + 1]), Row(2, second[at : at + 1])])
        with pytest.raises(BackendError, match="could not move"):
            model.forward([Row(0, first[43:44]), Row(2, second[43:44])])
        lost = [slot for slot in (0, 2) if model.truncate(slot, 40) == 0]
        assert len(lost) == 1
        again = fed(model, lost[0], (first, second)[lost[0] // 2])
        model.truncate(1, 0)
        assert np.array_equal(again, fed(model, 1, (first, second)[lost[0] // 2]))


@pytest.mark.parametrize("by_itself", [False, True])
def test_idle_slots_between_are_run_along_and_keep_their_texts(by_itself, ran):
    texts = random_texts(4)
    with closing(engines.target("llama", slots=4, context=256, shared=False)) as model:
        expected = [fed(model, 0, text)[-1] for text in texts]
        model.truncate(0, 0)
        for slot, text in enumerate(texts[:3]):  # of 40 tokens, the middle one of 57
            model.forward([Row(slot, text[: 57 if slot == 1 else 40])])
        ran.clear()
        at = 40
        if by_itself:
            newest = [[int(texts[slot][each]) for slot in (2, 0)] for each in range(41, 45)]
            first = [int(texts[slot][40]) for slot in (2, 0)]
            model.multi_step([2, 0], first, lambda found: newest.pop(0) if newest else None)
            at = 45
        for each in range(at, 60):
            one, other = (Row(slot, texts[slot][each : each + 1]) for slot in (2, 0))
            found = model.forward([one, other])
        assert ran[0] == ran[-1] == [0, 1, 2]
        for slot, logits in zip((2, 0), found, strict=True):
            assert np.allclose(logits[-1], expected[slot], rtol=0, atol=0.01)
        assert np.allclose(fed(model, 1, texts[1], 57)[-1], expected[1], rtol=0, atol=0.01)


def test_a_text_that_was_run_along_is_summed_up_in_the_same_order(ran):
    first, second = random_texts(2)
    with closing(engines.target("llama", slots=3, shared=False, bit_exact=True)) as model:
        expected = fed(model, 1, first)
        model.truncate(1, 45)
        for slot in (0, 2):
            model.forward([Row(slot, second[:40])])
        for at in range(40, 50):
            model.forward([Row(slot, second[at : at + 1]) for slot in (0, 2)])
        assert ran[-1] == [0, 1, 2]
        assert np.array_equal(fed(model, 1, first, 45), expected[5:])


@pytest.fixture
def ran(monkeypatch):
    """The slots of each batch of llama.cpp's; none is moved."""
    batches, fill = [], LlamaBatch.fill

    def noted(self, parts, ids):
        batches.append([each.sequence for each in parts])
        return fill(self, parts, ids)

    monkeypatch.setattr(LlamaBatch, "fill", noted)
    monkeypatch.setattr("localspec_llamacpp.gathering.PATIENCE", 100)
    return batches


def test_an_idle_slot_is_not_run_along_where_that_costs_more_or_is_impossible(ran):
    one = tokens_of([7])
    with closing(engines.target("llama", slots=4, context=256, shared=False, batch=17)) as model:

        def hold(slot, count):
            model.truncate(slot, 0)
            for at in range(0, count, model.batch):
                model.forward([Row(slot, np.resize(one, min(model.batch, count - at)))])

        def run(widths):
            model.forward([Row(slot, np.resize(one, width)) for slot, width in widths.items()])
            return ran[-1]

        hold(0, 20), hold(2, 20), hold(1, 40)
        assert run({0: 1, 2: 1}) == [0, 1, 2]
        hold(1, 43)  # more than the others
        assert run({0: 1, 2: 1}) == [0, 2]
        hold(1, 5)
        assert run({0: 1, 2: 1, 3: model.batch - 3}) == [0, 1, 2, 3]
        assert 1 not in run({0: 1, 2: 1, 3: model.batch - 2})  # the batch is full
        assert run({0: 2, 2: 2}) == [0, 2]  # the others would be cut in pieces
        assert model.truncate(1, 9) == 5
        hold(0, 600), hold(2, 600), hold(1, model.context)
        assert run({0: 1, 2: 1}) == [0, 2]  # the slot is full
        model.truncate(1, model.context - 1)
        newest = [[3, 3], [3, 3], [3, 3]]
        model.multi_step((0, 2), [3, 3], lambda found: newest.pop())
        assert ran[-1] == [0, 1, 2]
        assert len(newest) == 2  # there is no room for a second token: others go on later


def test_an_idle_slot_keeps_its_text_when_a_batch_fails(monkeypatch):
    text, other = random_texts(2)
    with closing(engines.target("llama", slots=3, context=256, shared=False)) as model:
        expected = fed(model, 1, other)[-1]
        model.truncate(1, 57)
        for slot in (0, 2):
            model.forward([Row(slot, text[:40])])
        decode = model._context.decode

        def broken(parts):
            decode(parts)
            raise BackendError("lost")

        monkeypatch.setattr(model._context, "decode", broken)
        with pytest.raises(BackendError, match="lost"):
            model.forward([Row(slot, text[40:41]) for slot in (0, 2)])
        monkeypatch.undo()
        assert [model.truncate(slot, 64) for slot in range(3)] == [40, 57, 40]
        assert np.allclose(fed(model, 1, other, 57)[-1], expected, rtol=0, atol=0.01)


def random_texts(count):
    dice = np.random.default_rng(3)
    return [tokens_of(dice.integers(0, 40, 60).tolist()) for _ in range(count)]


def fed(model, slot, text, at=0):
    """The logits after each token that is fed alone, the first 40 of a text being read at once."""
    if not at:
        at = 40
        model.truncate(slot, 0)
        model.forward([Row(slot, text[:at])])
    others = [text[each : each + 1] for each in range(at, len(text))]
    return np.array([model.forward([Row(slot, token)])[0][-1].copy() for token in others])
