"""On a processor an answer has the same bits in any order, batch and state of the cache."""

from __future__ import annotations

import random

import pytest

from localspec import Question
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.running.runtime.runtime import Runtime
from tests import engines

STATE = "the code is on the left, and the sea is on the right of it. " * 4
STREAMS = 4


def question(at):
    """Make a question like no other: of one of the kinds, and of another length."""
    words = f"{at}: is the code that is on the left of the sea on the right of it? " * (1 + at % 4)
    if at % 3 == 0:
        return Question.predicate(words)
    if at % 3 == 1:
        return Question.choice(words, {"the code": "", "the sea": "of it", "it": ""})
    return Question.score(words, ["on it", "not on it"])


def loaded(architecture, slots, context=1024):
    return Runtime(Engine(engines.target(architecture, slots=slots, context=context), Silent()))


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("architecture", engines.there("llama", "qwen3"))
def test_an_answer_does_not_depend_on_others_or_on_what_is_cached(architecture, count):
    questions = {f"{at}": question(at) for at in range(count)}
    with loaded(architecture, 1) as model:
        alone = {
            name: model.decide(STATE, {name: asked})[name] for name, asked in questions.items()
        }
    with loaded(architecture, 1) as model:  # where nothing is cached
        assert model.decide(STATE, {"7": questions["7"]})["7"] == alone["7"]
    with loaded(architecture, 8, 8192) as model:
        backwards = {name: questions[name] for name in reversed(questions)}
        assert model.decide(STATE, backwards) == alone
        assert model.decide(STATE, questions) == alone  # where all is cached
        streams = [
            model.stream("the sea " * at, raw=True, max_tokens=7000, temperature=1, seed=at)
            for at in range(1, STREAMS + 1)
        ]
        begun = [iter(stream) for stream in streams]
        assert all(next(chunks).tokens for chunks in begun)
        names = random.Random(count).sample(list(questions), count)
        assert model.decide(STATE, {name: questions[name] for name in names}) == alone
        for stream in streams:
            stream.cancel()
        assert "cancelled" in {stream.result.finish_reason for stream in streams}
