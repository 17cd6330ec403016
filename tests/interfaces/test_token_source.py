"""An engine needs no more of a sampler than the interface asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler, SamplerParts
from localspec.interfaces.backend import MAX_TENTATIVE, Roll, Row
from localspec.interfaces.dice import Dice
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.forward_loop import roll_by_forward
from localspec.interfaces.testing import ScriptedModel, hashed_logits


@dataclass
class EvenTokens:
    """A source that a program around the core might have: the likeliest even token."""

    sampling: Sampling = GREEDY
    dice: Dice = field(default_factory=lambda: Dice(0))
    is_foreseen: bool = False
    is_constrained: bool = True
    is_simple: bool = False

    def over(self, drafted):
        return len(drafted) == 3

    def adjusted(self, logits, drafted):
        return np.where(np.arange(len(logits)) % 2, -np.inf, logits).astype(np.float32)

    def draft_distribution(self, logits, drafted):
        return Distribution.certain(int(logits.argmax()))


def test_a_model_rolls_by_a_source_that_is_no_sampler():
    row = Row(0, tokens_of([1, 2, 3]))
    roll = Roll(row, 8, EvenTokens(), start=3)
    [draft] = roll_by_forward(ScriptedModel(hashed_logits(1)), [roll])
    tokens = draft.tokens.tolist()
    assert len(tokens) == 3  # it is over then
    assert not any(token % 2 for token in tokens)


def test_a_sampler_is_foreseen_for_as_long_as_the_longest_draft():
    def foreseen(slack):
        thought = SimpleNamespace(slack=slack)  # a budget that leaves so many tokens alone
        return Sampler(GREEDY, 0, tokens_of([1]), SamplerParts(thought=thought)).is_foreseen

    assert foreseen(MAX_TENTATIVE + 1)
    assert not foreseen(MAX_TENTATIVE)


def test_a_sampler_is_constrained_where_it_has_a_grammar_and_by_nothing_else():
    def constrained(**parts):
        return Sampler(GREEDY, 0, tokens_of([1]), SamplerParts(**parts)).is_constrained

    assert constrained(constraint=SimpleNamespace())
    assert not constrained(thought=SimpleNamespace(slack=0))
