"""On a processor an answer has the same bits in any order, batch and state of the cache."""

from __future__ import annotations

import threading

import pytest

from localspec import Question
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.running.runtime.runtime import Runtime
from tests import engines

STATE = "the code is on the left, and the sea is on the right of it. " * 4
QUESTIONS = {
    "left": Question.predicate("the code is on the left?"),
    "what": Question.choice(
        "what is on the right?", {"the code": "", "the sea": "of it", "it": ""}
    ),
    "far": Question.score("how far?", ["on it", "not on it"]),
    "long": Question.predicate(
        "is the code that is on the left of the sea on the right of it? " * 3
    ),
}


def loaded(architecture, slots):
    return Runtime(Engine(engines.target(architecture, slots=slots, context=1024), Silent()))


@pytest.mark.parametrize("architecture", engines.there("llama", "qwen3"))
def test_an_answer_does_not_depend_on_others_or_on_what_is_cached(architecture):
    alone = {}
    for name, question in QUESTIONS.items():
        with loaded(architecture, 1) as model:
            alone[name] = model.decide(STATE, {name: question})[name]
    with loaded(architecture, 4) as model:
        backwards = {name: QUESTIONS[name] for name in reversed(QUESTIONS)}
        assert model.decide(STATE, backwards) == alone
        assert model.decide(STATE, QUESTIONS) == alone  # where all is cached
        writing = threading.Thread(target=model.generate, args=("the sea " * 40,))
        writing.start()
        assert model.decide(STATE, QUESTIONS) == alone  # beside a reply
        writing.join()
