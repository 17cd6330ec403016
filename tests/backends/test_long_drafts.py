"""Drafts as long as a piece of a prompt change no text, wherever the first wrong token is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.draft_request import Ask
from tests import engines
from tests.runs import TEXTS, Want, replies, said

LENGTH = 300  # tokens of a draft
PLACES = (0, 1, 63, 64, 65, 299, LENGTH)  # of the first wrong token; the last: none is
ROOM = {"context": 512, "batch": LENGTH + 2, "tentative": LENGTH}
# Without flash attention llama.cpp rounds alike in batches of any width on a CPU.
PLAIN = {"context": 512, "flash_attention": False}
GREEDY = Settings(max_tokens=LENGTH + 20, ignore_end=True)
SETTINGS = {
    "greedy": GREEDY,
    "sampled": replace(GREEDY, sampling=Sampling(temperature=1.0, top_p=0.9), seed=7),
    "penalised": replace(
        GREEDY, sampling=Sampling(presence=0.6, frequency=0.2, repetition=1.2), seed=7
    ),
    "of a form": replace(GREEDY, grammar=Grammar("regex", r"([a-z]{1,9} )+")),
    "to the end of the context": replace(GREEDY, max_tokens=None),
}


@dataclass(frozen=True)
class Recital:
    """Drafts what each text is known to become, but for one token, and all of it behind that."""

    texts: Sequence[tuple[int, ...]]  # replies, by slot
    right: int  # tokens of the first draft before the wrong one

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._draft(ask) for ask in asks]

    def _draft(self, ask: Ask) -> Draft:
        made = len(ask.history) - ask.prompt
        tokens = list(self.texts[ask.slot][made : made + ask.limit])
        if made == 1 and self.right < len(tokens):
            tokens[self.right] = (tokens[self.right] + 1) % 100
        return Draft(tokens_of(tokens), "recital") if tokens else EMPTY

    def release(self, slot: int) -> None:
        pass


def wants(model, kind, count=1) -> list[Want]:
    settings = SETTINGS[kind]
    return [Want(model.tokenizer.encode(text).tolist(), settings) for text in TEXTS[:count]]


@cache
def plain(name, kind, count=1):
    with closing(engines.target(name, slots=1, **PLAIN)) as target:
        return [replies(target, Silent(), [want])[0] for want in wants(target, kind, count)]


def drafted(name, kind, right, count=1, **options):
    texts = [result.tokens for result in plain(name, kind, count)]
    with closing(engines.target(name, **{**PLAIN, **ROOM, "slots": count, **options})) as target:
        return replies(target, Recital(texts, right), wants(target, kind, count), target.tentative)


@pytest.mark.parametrize("kind", ["greedy", "sampled"])
@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen35", "lfm2", "mamba2"])
def test_a_long_draft_changes_no_text(name, kind):
    [expected] = plain(name, kind)
    with closing(engines.target(name, **PLAIN | ROOM, slots=1)) as target:
        for right in PLACES:
            target.truncate(0, 0)
            recital = Recital([expected.tokens], right)
            [fast] = replies(target, recital, wants(target, kind), LENGTH)
            assert said([fast]) == said([expected]), right
            assert fast.speculation.accepted >= LENGTH
            assert fast.speculation.rounds <= 4


@pytest.mark.parametrize("name", ["qwen35-mtp", "llama-eagle3"])
def test_a_head_follows_a_long_draft_of_another_proposer(name):
    [expected] = plain(name, "greedy")
    for right in PLACES:
        with closing(engines.target(name, **PLAIN | ROOM, slots=1)) as target:
            recital = Recital([expected.tokens[:200]], right)
            both = FirstOf({"recital": recital, "head": HeadProposer(target.head)})
            fast = replies(target, both, wants(target, "greedy"), LENGTH)
            assert said(fast) == said([expected]), right
            assert fast[0].speculation.tokens_by_source.keys() >= {"recital", engines.HEADS[name]}


@pytest.mark.parametrize("kind", ["penalised", "of a form", "to the end of the context"])
@pytest.mark.parametrize("right", [64, LENGTH])
def test_a_long_draft_follows_what_else_rules_a_reply(kind, right):
    fast = drafted("llama", kind, right)
    assert said(fast) == said(plain("llama", kind))
    assert fast[0].speculation.accepted > LENGTH // 2


@pytest.mark.parametrize("name", ["llama", "qwen35", "mamba2"])
@pytest.mark.parametrize("batch", [LENGTH + 2, 514])
def test_long_drafts_of_several_texts_change_none(name, batch):
    """Where the batch has no room for the drafts of all, some wait."""
    fast = drafted(name, "sampled", 65, count=4, batch=batch)
    assert said(fast) == said(plain(name, "sampled", 4))
    assert all(result.speculation.accepted > LENGTH // 2 for result in fast)


def test_the_longest_draft_changes_no_text():
    fields = {"context": 1024, "batch": 514, "tentative": 512}
    fast = drafted("llama", "to the end of the context", 512, **fields)
    [reference] = plain("llama", "to the end of the context")
    assert fast[0].tokens[: len(reference.tokens)] == reference.tokens
    assert fast[0].speculation.accepted > len(reference.tokens) // 2


def test_a_long_draft_is_equal_to_the_bit_where_that_was_asked_for():
    """With flash attention, which llama.cpp computes in tiles from 64 tokens on, but not so."""
    options = {**ROOM, "slots": 1, "bit_exact": True, "kv_type": "f16,bf16"}
    with closing(engines.target("llama", **options)) as target:
        [want] = wants(target, "greedy")
        [alone] = replies(target, Silent(), [want])
        for right in (63, 64, LENGTH):
            target.truncate(0, 0)
            fast = replies(target, Recital([alone.tokens], right), [want], LENGTH)
            assert said(fast) == said([alone])
