"""The whole engine on real models that see: drafts behind pictures never change a token."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache

import pytest

from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.interfaces.media import Medium
from tests import engines
from tests.runs import TEXTS, converse, replies, said
from tests.seeing import pictured
from tests.tiny_vision import SIGHTED, picture

SETTINGS = Settings(max_tokens=32, ignore_end=True)
ONE, OTHER, LARGE = (
    Medium("image", picture(at, *size)) for at, size in enumerate(((48, 32), (40, 72), (96, 64)))
)
BESIDE = ("llama-eagle3", "llama-dflash", "qwen35-eagle3", "qwen35-dflash", "gemma3-eagle3")
BESIDE += (engines.COMPANION,)
GUESSERS = {
    **dict.fromkeys(SIGHTED, ("ngram", "llama")),
    "qwen35-mtp": ("ngram", "mtp"),
    **{name: (engines.HEADS[name],) for name in BESIDE},
}


def sighted(name, **options):
    """A model that rounds nearly alike, whatever else is in its pool."""
    return engines.sighted(name, flash_attention=False, **options)


def wants(model):
    """Texts with a picture, in its middle, at its beginning; several, the same twice; none."""
    words = [model.tokenizer.encode(text).tolist() for text in TEXTS]
    prompts = (
        (words[0], ONE, words[1]),
        (OTHER, words[1]),
        (words[2], ONE, OTHER, words[0], ONE, words[2]),
        (words[1], LARGE),
        (words[0],),
    )
    return [
        pictured(model, *parts, settings=replace(SETTINGS, seed=seed))
        for seed, parts in enumerate(prompts)
    ]


@cache
def plain(name):
    """The replies without drafts, each alone."""
    with closing(sighted(name, slots=1, head=None)) as model:
        return said([replies(model, Silent(), [want])[0] for want in wants(model)])


CASES = [(name, by) for name in GUESSERS for by in GUESSERS[name]]
CASES += [(name, "ngram") for name in engines.MLX_SIGHTED[:1]]  # others take long
LATER = [(name, by) for name in engines.MLX_SIGHTED for by in ("ngram", "llama")]
CASES += [pytest.param(*case, marks=pytest.mark.long) for case in LATER if case not in CASES]


@pytest.mark.parametrize(("name", "by"), CASES)
@pytest.mark.parametrize("slots", [1, 4])
def test_greedy_text_behind_pictures_is_the_plain_text(name, by, slots):
    with ExitStack() as stack:
        model = stack.enter_context(closing(sighted(name, slots=slots)))
        proposer, others = engines.proposer(by, model)
        for other in others:
            stack.callback(other.close)
        fast = replies(model, proposer, wants(model))
    assert said(fast) == plain(name)
    drafted = [result.speculation.drafted > 0 for result in fast]
    assert any(drafted) if by == "ngram" else all(drafted)


@pytest.mark.parametrize("name", [*SIGHTED, *engines.MLX_SIGHTED[:1]])
def test_a_second_turn_reads_nothing_of_the_picture_again(name):
    with closing(sighted(name, slots=2)) as model:
        [want] = wants(model)[:1]
        engine = Engine(model, NgramProposer(3, 1), 4)
        [first] = converse(engine, [want])
        again = replace(want, prompt=[*want.prompt, *first.tokens, *want.prompt[-4:]])
        [second] = converse(engine, [again])
    assert second.usage.cached_tokens >= len(want.prompt)


@pytest.mark.parametrize("name", [*SIGHTED, *engines.MLX_SIGHTED[:1]])
def test_a_text_that_was_put_aside_goes_on_behind_its_pictures(name):
    expected = plain(name)
    with closing(sighted(name, slots=1)) as model:
        parts = EngineParts(tiers=CacheTiers(Ram(1 << 30), clock=lambda: 0.0))
        engine = Engine(model, NgramProposer(3, 1), 4, parts=parts)
        every = wants(model)
        for _ in range(2):
            for want, text in zip(every, expected, strict=True):
                assert said(converse(engine, [want])) == [text]
