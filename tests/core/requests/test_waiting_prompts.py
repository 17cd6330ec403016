"""Prompts that wait for another, which may end; on real engines, with adapters, with pictures."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

import pytest

from localspec.base.errors import BackendError, ContextFull
from localspec.core.proposers.silent import Silent
from localspec.core.requests.job import Result
from localspec.core.requests.settings import Settings
from localspec.interfaces.testing import ScriptedModel, ScriptedSight, seeing_logits
from tests import engines
from tests.core.requests.test_adapters import Adapted
from tests.core.requests.test_engine import Harness
from tests.core.requests.test_shared_prompts import (
    ONE,
    SHORT,
    STATE,
    Counting,
    alone,
    asked,
    ends,
    question,
    text,
)
from tests.runs import LETTERS, PROPOSERS, Want, replies, said
from tests.seeing import BEGIN, CAT, END, pictured


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 16])
def test_if_the_reader_is_cancelled_the_next_one_goes_on(recurrent, steps):
    model = Counting(recurrent=recurrent, batch=64)
    harness = Harness(model)
    prompts = [question(at, 40 + at) for at in range(4)]
    jobs = [harness.ask(prompt, ONE)[0] for prompt in prompts]
    for _ in range(steps):
        harness.engine.step()
    jobs[0].cancelled = True
    harness.finish()
    assert ends(harness.heard)[0].finish_reason == "cancelled"
    assert said(ends(harness.heard)[1:]) == alone(prompts[1:])
    assert model.read == 1000 + 41 + 42 + 43


@pytest.mark.parametrize(("failures", "read"), [((1,), 0), ((3,), 128), ((2, 18), 64 + 960)])
def test_if_the_reader_fails_the_next_one_reads_by_itself(failures, read):
    """What a reader held is lost, and none of the others."""
    model = Counting(batch=64, failures=failures)
    prompts = [question(at) for at in range(4)]
    results = ends(asked(model, prompts))
    failed = len(failures)
    assert all(isinstance(result, BackendError) for result in results[:failed])
    assert said(results[failed:]) == alone(prompts[failed:])
    assert model.read == read + 1000 + 40 * (4 - failed)


def test_a_reader_does_not_stop_for_one_that_has_gone():
    single, model = Counting(), Counting()
    asked(single, [question(0)])
    harness = Harness(model)
    harness.ask(question(0), ONE)
    gone, _ = harness.ask(question(1), ONE)
    harness.engine.step()
    gone.cancelled = True
    harness.finish()
    assert model.forwards == single.forwards


def test_if_the_reader_gives_up_its_place_it_is_read_again():
    model = Counting(batch=64, failures=(3,), error=ContextFull(0, 9))
    prompts = [question(at, 300 - 100 * at) for at in range(3)]  # the newest is read first
    results = ends(asked(model, prompts))
    assert said(results) == alone(prompts)
    assert model.read == 128 + 1000 + 300 + 200 + 100


class Uncopying(Counting):
    """Holds texts that cannot be copied, as those of windows in one cache."""

    copies = 0

    def copy(self, source, target, length):
        self.copies += 1
        self.held[target] = []
        return 0


def test_an_engine_that_copies_no_text_is_asked_once():
    model = Uncopying()
    harness = Harness(model)
    for first in range(3):
        prompts = [question(at, state=[first, *text(first, 599)]) for at in range(3)]
        heard = [harness.ask(prompt, ONE)[1] for prompt in prompts]
        harness.engine.step()
        waits = [job.generation.awaits for job in harness.engine.jobs]
        assert waits == [False, first == 0, first == 0]
        harness.finish()
        assert said(ends(heard)) == alone(prompts)
    assert model.copies == 1
    assert model.read == 3 * 3 * 640


def test_texts_with_other_adapters_share_nothing():
    model = Adapted()
    model.batch = 512
    reads = []
    forward = model.forward
    model.forward = lambda rows: (reads.extend(len(r.tokens) for r in rows), forward(rows))[1]
    sets = [{}, {0: 0.5}, {}, {0: 0.5}]
    wants = [
        Want(question(at), Settings(max_tokens=1, ignore_end=True, adapters=adapters))
        for at, adapters in enumerate(sets)
    ]
    results = replies(model, Silent(), wants)
    assert sum(reads) == 2 * 1000 + 4 * 40
    assert said(results) == [said(replies(Adapted(), Silent(), [want]))[0] for want in wants]


@pytest.mark.parametrize("running", [False, True])
def test_none_goes_on_from_a_text_of_other_adapters(running):
    """Such a text, in a slot that is free or not, has more of the prompt than the one it awaits."""
    mine, other = (replace(SHORT, max_tokens=60, adapters=scales) for scales in ({}, {0: 0.5}))
    begun = question(1)[:1020]
    [reply] = replies(Adapted(), Silent(), [Want(begun, other)])
    prompts = [question(0), [*begun, *reply.tokens, 4]]
    harness = Harness(Adapted(), clock=count(step=0.1).__next__)  # sets of adapters take turns
    _, events = harness.ask(begun, other)
    while not (events if running else events and isinstance(events[-1], Result)):
        harness.engine.step()
    heard = [harness.ask(prompt, mine)[1] for prompt in prompts]
    harness.finish()
    wants = [Want(prompt, mine) for prompt in prompts]
    assert said(ends(heard)) == [said(replies(Adapted(), Silent(), [want]))[0] for want in wants]
    assert heard[1][-1].usage.cached_tokens == 1000


@pytest.mark.parametrize("whole", [False, True])
def test_a_picture_that_prompts_share_is_read_once(whole):
    model = ScriptedModel(
        seeing_logits(1), LETTERS, sight=ScriptedSight(BEGIN, END, (300,), whole=whole)
    )
    model.batch, reads = 512, []
    wants = [pictured(model, [1, 2], CAT, [3, at], settings=ONE) for at in range(3)]
    forward = model.forward
    model.forward = lambda rows: (reads.extend(len(r.tokens) for r in rows), forward(rows))[1]
    results = replies(model, Silent(), wants)
    assert sum(reads) == 2 + 302 + 1 + 3
    assert said(results) == [said(replies(model, Silent(), [want]))[0] for want in wants]


@pytest.mark.parametrize("seed", range(12))
def test_whoever_comes_and_goes_every_text_is_its_own(seed):
    rng = random.Random(seed)
    states = [STATE, STATE[:400], [*STATE[:600], *text(3, 500)]]
    model = Counting(recurrent=bool(seed % 2), batch=rng.choice([64, 200, 512]), slots=4)
    harness, jobs = Harness(model, PROPOSERS["ngram"]()), []
    for at in range(9):
        settings = rng.choice([ONE, SHORT, Settings(max_tokens=30, ignore_end=True)])
        prompt = question(at % 5, rng.randint(1, 90), rng.choice(states))
        jobs.append((*harness.ask(prompt, settings), prompt, settings))
        for _ in range(rng.randint(0, 4)):
            harness.engine.step()
        rng.choice(jobs)[0].cancelled |= rng.random() < 0.3
    harness.finish()
    for _, events, prompt, settings in jobs:
        [(_, tokens, _)] = alone([prompt], settings)
        assert isinstance(events[-1], Result)
        assert events[-1].tokens == tokens[: len(events[-1].tokens)]
        assert events[-1].finish_reason == "cancelled" or events[-1].tokens == tokens


ENGINES = (*engines.ARCHITECTURES, "mlx llama", "mlx gemma3_text", "mlx qwen3_5")


@pytest.mark.parametrize("name", engines.there(*ENGINES))
def test_engines_give_each_text_as_alone(name):
    settings = Settings(max_tokens=6, ignore_end=True, logprobs=0)
    prompts = [question(at, 5 + at, text(4, 300)) for at in range(3)]
    model, other = engines.target(name), engines.target(name)
    results = ends(asked(model, prompts, settings))
    single = [ends(asked(other, [prompt], settings))[0] for prompt in prompts]
    assert said(results) == said(single)
    in_one_cache = model.pool < model.slots * model.context
    shared = 0 if in_one_cache and name == "gemma3" else 300  # windows in one cache are not copied
    assert [result.usage.cached_tokens for result in results] == [0, shared, shared]
    rounding = 1e-5 if in_one_cache else 0
    for result, alone_result in zip(results, single, strict=True):
        logprobs = [[row.logprob for row in each.logprobs] for each in (result, alone_result)]
        assert logprobs[0] == pytest.approx(logprobs[1], abs=rounding, rel=0)
    for each in (model, other):
        each.close()
