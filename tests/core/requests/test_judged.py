"""Log-probabilities of tokens that somebody asks about, whether or not they are likely."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.errors import UsageError
from localspec.core.requests.settings import Settings
from localspec.interfaces.testing import hashed_logits
from tests.runs import PROPOSERS, Want, replies, scripted

SCRIPT = hashed_logits(1)
PROMPTS = [[3, 1, 4, 1, 5], [2, 5], [1]]
JUDGED = Settings(max_tokens=12, logprobs=0, judged=(6, 0, 2))


def logprobs(context):
    logits = SCRIPT(context).astype(np.float64)
    return logits - np.log(np.exp(logits).sum())


@pytest.mark.parametrize("proposer", ["silent", "suffix", "best"])
def test_tokens_are_judged_at_each_place_in_the_order_in_which_they_were_named(proposer):
    wants = [Want(prompt, JUDGED) for prompt in PROMPTS]
    for want, result in zip(wants, replies(scripted(), PROPOSERS[proposer](), wants), strict=True):
        text = [*want.prompt, *result.tokens]
        for at, emitted in enumerate(result.logprobs, start=len(want.prompt)):
            expected = logprobs(text[:at])
            assert emitted.judged == pytest.approx([expected[token] for token in (6, 0, 2)])
            assert emitted.top == ()


def test_a_token_outside_the_vocabulary_is_not_judged():
    with pytest.raises(UsageError, match="judged names tokens outside 0 to 6"):
        replies(scripted(), PROPOSERS["silent"](), [Want([1], Settings(judged=(7,)))])
