"""Draft models that draft all tokens of a draft in one forward, with masks in their place."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.core.pairing.masked import Masked
from localspec.core.pairing.translated import Translated
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Roll, Row
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.loaded_pair import pair_models
from tests.runs import LETTERS, STRANGE_LETTERS, Want, replies, said

MASK, COUNTED = 5, 5


def counting(context):
    """Tell the next of 0, 1, 2, 3, 4, 0, ..., or, at a mask, the one that belongs there."""
    unmasked = [at for at, token in enumerate(context) if token != MASK]
    logits = np.zeros(7, np.float32)
    logits[(context[unmasked[-1]] + len(context) - unmasked[-1]) % COUNTED] = 6.0
    return logits


def model(**options):
    return ScriptedModel(counting, LETTERS, **options)


def rolled(draft, history, depth=4, slot=0):
    roll = Roll(Row(slot, tokens_of(history)), depth, Sampler(GREEDY, 0, tokens_of(history)), 9)
    return draft.roll([roll])[0].tokens.tolist()


def test_a_draft_takes_one_forward_and_leaves_no_mask_behind():
    inner = model()
    draft = Masked(inner, MASK)
    assert rolled(draft, [0, 1, 2]) == [3, 4, 0, 1]
    assert inner.forwards == 1
    assert inner.held[0] == [0, 1, 2]
    assert rolled(draft, [3]) == [4, 0, 1, 2]


def test_texts_of_any_length_are_drafted_for_together():
    inner = model()
    inner.batch = 12
    draft = Masked(inner, MASK)
    rolls = [
        Roll(Row(slot, tokens_of(text)), 3, Sampler(GREEDY, 0, tokens_of(text)), len(text))
        for slot, text in enumerate([[0, 1] * 9 + [2], [3], [0, 1, 2, 3]])
    ]
    assert [each.tokens.tolist() for each in draft.roll(rolls)] == [[3, 4, 0], [4, 0, 1], [4, 0, 1]]
    assert [len(inner.held[slot]) for slot in range(3)] == [19, 1, 4]


def test_a_copy_holds_no_draft():
    draft = Masked(model(), MASK)
    rolled(draft, [0, 1, 2])
    assert draft.copy(0, 1, 6) == 3
    assert rolled(draft, [3], slot=1) == [4, 0, 1, 2]


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_are_the_plain_ones_and_mostly_drafted(recurrent, temperature):
    settings = Settings(max_tokens=30, sampling=Sampling(temperature=temperature), ignore_end=True)
    wants = [Want([0, 1], settings), Want([3, 4, 0], settings), Want([2], settings)]
    proposer = DraftModelProposer(Masked(model(recurrent=recurrent), MASK), floor=0.0)
    fast = replies(model(recurrent=recurrent), proposer, wants)
    drafted = sum(result.speculation.drafted for result in fast)
    accepted = sum(result.speculation.accepted for result in fast)
    if temperature:
        assert accepted > 0.5 * drafted > 20
        return
    assert said(fast) == said(replies(model(), Silent(), wants))
    assert accepted > 0.9 * drafted > 50


def test_a_pair_takes_the_mask_of_its_draft_model():
    target, inner = model(), model()
    assert rolled(pair_models(target, inner, MASK).draft, [0, 1]) == [2, 3, 4, 0]
    assert inner.forwards == 1
    assert pair_models(target, inner).draft is inner
    assert pair_models(target, inner, 7).draft is inner  # there is no token 7
    strange = ScriptedModel(counting, STRANGE_LETTERS)
    assert type(pair_models(target, strange, MASK).draft) is Translated
