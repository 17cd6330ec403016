"""Replies that may not end before so many tokens, and further tokens that end them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.base.errors import UsageError
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.testing import hashed_logits
from tests.runs import LETTERS, PROPOSERS, Want, replies, scripted

SCRIPT = hashed_logits(1)
PROMPTS = [[1, 2, 3, at % 6] for at in range(6)]
ENDS = frozenset({6, 2})  # the model's own, and one more


def expected(prompt, least, most=40):
    """Follow the likeliest tokens by hand."""
    reply = []
    while len(reply) < most:
        logits = SCRIPT([*prompt, *reply]).copy()
        if len(reply) < least:
            logits[sorted(ENDS)] = -1e9
        reply.append(int(logits.argmax()))
        if reply[-1] in ENDS:
            break
    return reply


@pytest.mark.parametrize("proposer", ["silent", "suffix", "twin", "stranger", "best", "forced"])
@pytest.mark.parametrize("least", [0, 1, 9])
def test_no_token_ends_a_reply_that_is_too_short_whatever_drafts(proposer, least):
    settings = Settings(max_tokens=40, ends=frozenset({2}), min_tokens=least)
    answers = replies(scripted(), PROPOSERS[proposer](), [Want(p, settings) for p in PROMPTS])
    assert [list(each.tokens) for each in answers] == [expected(p, least) for p in PROMPTS]
    texts = ["".join("abcdefg"[token] for token in each.tokens) for each in answers]
    for result, text in zip(answers, texts, strict=True):
        assert result.text == (text[:-1] if result.finish_reason == "stop" else text)


def test_a_seed_gives_the_same_sampled_text_with_drafts_and_without():
    settings = Settings(max_tokens=40, sampling=Sampling(temperature=1.5), seed=7, min_tokens=12)
    wants = [Want(prompt, settings) for prompt in PROMPTS]
    plain, drafted = (
        replies(scripted(), PROPOSERS[name](), wants) for name in ("silent", "suffix")
    )
    assert [each.tokens for each in plain] == [each.tokens for each in drafted]
    assert all(len(each.tokens) >= 12 for each in plain)


def test_a_reply_ends_early_where_no_other_token_is_left():
    every = Settings(max_tokens=9, ends=frozenset(range(7)), min_tokens=5)
    held = replace(every, ends=frozenset({0}), grammar=Grammar("regex", "[ab]a"))
    for settings in (every, held):
        [result] = replies(scripted(), PROPOSERS["forced"](), [Want([1], settings)])
        assert result.finish_reason == "stop"
        assert len(result.tokens) <= 2


def test_fewer_than_none_are_refused():
    with pytest.raises(UsageError, match="min_tokens is -1; it must be at least 0"):
        Settings(min_tokens=-1)
    assert LETTERS.ends == {6}
