"""Prompts that begin alike and are asked at once: what they share is read once."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import BackendError
from localspec.core.proposers.silent import Silent
from localspec.core.requests.job import Chunk, Result
from localspec.core.requests.settings import Settings
from localspec.core.requests.shared_prompts import MIN_SHARED, parting_ahead
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from tests.core.decoding.test_scheduler import text as prompt_of
from tests.core.requests.test_engine import Harness
from tests.runs import LETTERS, PROPOSERS, Want, replies, said, scripted

ONE = Settings(max_tokens=1, ignore_end=True)
WHOLE = replace(ONE, reuse_prefix=False)
SHORT = Settings(max_tokens=5, ignore_end=True)
STREAM = Settings(max_tokens=400, ignore_end=True)


def text(seed, length):
    return [int(letter) for letter in np.random.default_rng(seed).integers(0, 5, length)]


STATE = text(1, 1000)


def question(at, length=40, state=STATE):
    """Make a prompt that parts from others right behind the state."""
    return [*state, at, *text(at, length - 1)]


class Counting(ScriptedModel):
    """Counts the tokens that it reads; the forwards in `failures` fail with an error."""

    def __init__(self, *, recurrent=False, batch=512, slots=8, failures=(), error=None):
        super().__init__(hashed_logits(1), LETTERS, recurrent=recurrent)
        self.batch, self.slots, self.failures = batch, slots, failures
        self.error = error or BackendError("the card is gone")
        self.read = self.calls = 0

    def forward(self, rows):
        self.calls += 1
        if self.calls in self.failures:
            raise self.error
        self.read += sum(len(row.tokens) for row in rows)
        return super().forward(rows)


def asked(model, prompts, settings=ONE, proposer=None):
    """Ask all at once; return the events of each."""
    harness = Harness(model, proposer)
    for prompt in prompts:
        harness.ask(prompt, settings)
    harness.finish()
    return harness.heard


def ends(heard):
    return [events[-1] for events in heard]


def alone(prompts, settings=ONE):
    return said([replies(scripted(), Silent(), [Want(each, settings)])[0] for each in prompts])


def distinct(prompts):
    """Count the beginnings that prompts have: the tokens to read if none is read twice."""
    return len({bytes(prompt[:end]) for prompt in prompts for end in range(1, len(prompt) + 1)})


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("batch", [64, 100, 512, 2048])
def test_what_prompts_share_is_read_once(recurrent, batch):
    prompts = [question(at) for at in range(4)]
    model = Counting(recurrent=recurrent, batch=batch)
    results = ends(asked(model, prompts))
    assert model.read == 1000 + 4 * 40
    assert sorted(result.usage.cached_tokens for result in results) == [0, 1000, 1000, 1000]
    assert said(results) == alone(prompts)


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("name", ["silent", "ngram", "twin", "best"])
def test_texts_are_those_of_each_alone_with_and_without_drafts(recurrent, name):
    prompts = [question(at, 20 + at) for at in range(4)]
    model = Counting(recurrent=recurrent)
    results = ends(asked(model, prompts, SHORT, PROPOSERS[name]()))
    assert said(results) == alone(prompts, SHORT)
    assert {result.usage.cached_tokens for result in results} == {0, 1000}


@pytest.mark.parametrize("recurrent", [False, True])
def test_equal_prompts_read_their_last_token_each(recurrent):
    model = Counting(recurrent=recurrent)
    asked(model, [STATE] * 4)
    assert model.read == 1000 + 3


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("order", [1, -1])
def test_a_prompt_that_another_goes_on_from_is_read_once(recurrent, order):
    model = Counting(recurrent=recurrent)
    asked(model, [STATE, [*STATE, *text(2, 300)]][::order])
    assert model.read == 1300 + 1  # the last token of the shorter one


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_of_a_tree_of_prompts_each_branch_is_read_once(recurrent, seed):
    branch = [*STATE, 1, *text(2, 300)]
    prompts = [question(at, 30, branch) for at in range(3)]
    prompts += [question(2), question(3, 700), [5, *text(9, 89)], question(4, 700, STATE[:500])]
    random.Random(seed).shuffle(prompts)
    model = Counting(recurrent=recurrent)
    results = ends(asked(model, prompts))
    assert model.read == distinct(prompts)
    assert said(results) == alone(prompts)


@pytest.mark.parametrize(("shared", "read"), [(MIN_SHARED - 1, 2), (MIN_SHARED, 1)])
def test_no_prompt_waits_for_little(shared, read):
    model = Counting()
    asked(model, [question(at, state=STATE[:shared]) for at in range(2)])
    assert model.read == read * shared + 2 * 40


@pytest.mark.parametrize(("more", "read"), [(MIN_SHARED - 1, 2), (MIN_SHARED, 1)])
def test_what_is_held_already_is_nothing_to_wait_for(more, read):
    model = Counting()
    harness = Harness(model)
    harness.ask(STATE[:500], ONE)
    harness.finish()
    model.read = 0
    for at in range(2):
        harness.ask(question(at, state=STATE[: 500 + more]), ONE)
    harness.finish()
    assert model.read == read * more + 2 * 40


@pytest.mark.parametrize("recurrent", [False, True])
def test_no_prompt_goes_on_from_a_longer_text_that_is_another(recurrent):
    model, prompts = Counting(recurrent=recurrent), [question(1, 300), question(2, 300)]
    harness = Harness(model)
    harness.ask(text(9, 1200), ONE)
    harness.finish()
    for prompt in prompts:
        harness.ask(prompt, SHORT)
    harness.finish()
    assert all(any(held[:1300] == prompt for held in model.held.values()) for prompt in prompts)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_with_few_slots_it_is_read_once_as_well(slots):
    prompts = [question(at) for at in range(5)]
    model = Counting(slots=slots)
    results = ends(asked(model, prompts))
    assert model.read == 1000 + 5 * 40
    assert said(results) == alone(prompts)


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_prompt_that_comes_later_waits_for_what_is_left(recurrent):
    model = Counting(recurrent=recurrent, batch=64)
    harness = Harness(model)
    for at in range(4):
        harness.ask(question(at), ONE)
        for _ in range(3):
            harness.engine.step()
    harness.finish()
    assert model.read == 1000 + 4 * 40


def test_a_stream_has_a_token_in_every_round_beside():
    model = Counting()
    harness = Harness(model)
    _, stream = harness.ask([1, 2, 3], STREAM)
    harness.engine.step()
    begun, read = len(stream), model.read
    prompts = [question(at) for at in range(4)]
    heard = [harness.ask(prompt, ONE)[1] for prompt in prompts]
    rounds = 0
    while not all(heard):
        harness.engine.step()
        rounds += 1
    assert sum(len(chunk.tokens) for chunk in stream[begun:]) == rounds
    assert model.read - read - rounds == 1000 + 4 * 40
    assert said(ends(heard)) == alone(prompts)


def test_others_are_read_as_if_nobody_waited():
    """A short prompt beside has its first token in the first round, as ever."""
    harness = Harness(Counting())
    for at in range(3):
        harness.ask(question(at), ONE)
    _, other = harness.ask(text(7, 60), ONE)
    harness.engine.step()
    assert isinstance(other[0], Chunk)


def test_a_prompt_waits_for_none_that_comes_after_it_in_turn():
    harness = Harness(Counting())
    harness.ask(question(1, 3000), ONE)
    _, short = harness.ask(question(2, 10), ONE)
    for _ in range(3):
        harness.engine.step()
    assert isinstance(short[-1], Result)


def test_a_prompt_waits_for_none_that_has_read_less():
    mine, other = prompt_of(1000), prompt_of(900)
    mine.cached = 512
    places = []
    for other.cached in (0, 511, 512, 898, 899):
        places.append(parting_ahead(mine, other))
    assert places == [0, 0, 899, 899, 0]


def test_each_first_token_comes_within_the_rounds_of_its_own_prompt_and_one_more():
    model = Counting()
    harness = Harness(model)
    heard = [harness.ask(question(at), ONE)[1] for at in range(4)]
    for _ in range(4):  # 512, 488, and the ends: 128 tokens in a round
        harness.engine.step()
    assert all(isinstance(events[-1], Result) for events in heard)


def test_who_reads_the_whole_prompt_neither_waits_nor_lets_others_wait_for_its_scores():
    model = Counting()
    asked(model, [question(at) for at in range(2)], WHOLE)
    assert model.read == 2 * 1040
    harness = Harness(Counting())
    scored = Settings(max_tokens=1, ignore_end=True, logprobs=0, prompt_logprobs=True)
    _, scores = harness.ask(question(0, 10), scored)
    _, other = harness.ask(question(1, 20), ONE)
    while not other:
        harness.engine.step()
    assert not any(isinstance(event, Result) for event in scores)
    harness.finish()
    assert len(scores[-1].logprobs) == 1010
