"""What shares a device with a model may be freed or loaded in the middle of its texts.

A worker forgets the graphs that it has run when any memory of its is freed. llama.cpp asked for the
last one again, and ended the process.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Options, Row
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.links import links
from tests import engines
from tests.arrangements import Running

TEXT = tokens_of([5, 3, 1, 4])
OPTIONS = Options(context=256, slots=1, threads=1)
DRAFTING = Options(context=256, slots=1, threads=1, drafting=True)


def opened(seed, options=OPTIONS):
    path = engines.tiny("llama", seed=seed)
    return closing(llamacpp.load(path, Running.now.arranged(options)))


def logits(model, *tokens):
    [logit] = model.forward([Row(0, tokens_of(tokens), outputs=1)])
    return logit.copy()


@pytest.fixture(scope="module")
def expected():
    with opened(0) as alone:
        logits(alone, *TEXT)
        return [logits(alone, token) for token in range(6)]


def same(model, expected, token):
    """Tell whether a text goes on as it does alone."""
    return abs(logits(model, token) - expected[token]).max() < 1e-3


@pytest.mark.parametrize("options", [(OPTIONS, DRAFTING), (DRAFTING, OPTIONS)])
def test_a_draft_model_or_its_target_is_freed_in_the_middle_of_a_text(options, expected):
    with opened(0, options[0]) as left:
        with opened(3, options[1]) as freed:
            logits(left, *TEXT)
            logits(freed, *TEXT)
            assert same(left, expected, 0)
            assert same(left, expected, 1)
        assert same(left, expected, 2)
        assert same(left, expected, 3)


def test_another_model_is_loaded_and_freed_in_the_middle_of_a_text(expected):
    with opened(0) as target:
        logits(target, *TEXT)
        assert same(target, expected, 0)
        assert same(target, expected, 1)
        with opened(3):
            assert same(target, expected, 2)
            assert same(target, expected, 3)
        assert same(target, expected, 4)


def test_links_are_measured_in_the_middle_of_a_text(expected):
    with opened(0) as target:
        logits(target, *TEXT)
        for token in range(5):
            assert same(target, expected, token)
            links()
