"""The contract of every model for drafts as long as a piece of a prompt."""

from __future__ import annotations

from contextlib import closing
from functools import cache

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Row
from tests import engines
from tests.arrangements import Running

LENGTH = 300  # tokens of a draft
PLACES = (0, 1, 63, 64, 65, 299, 300)  # of the first token that is wrong; the last: none is
OPTIONS = {"context": 512, "batch": LENGTH + 2, "tentative": LENGTH, "flash_attention": False}
KINDS = (  # attention, windows, states
    *("llama", "gemma3", "qwen35", "lfm2", "mamba2"),
    *engines.there("mlx llama", "mlx gemma3_text", "mlx qwen3_5", "mlx mamba2"),
)
PROMPT = [(at * at + at // 3) % 6 for at in range(40)]
DRAFT = [(at * at + at // 7) % 6 for at in range(LENGTH)]
TEXT = tokens_of([*PROMPT, 3, *DRAFT, 2, 2])


@cache
def plain(name):
    """The logits after each token of the text, read in short pieces."""
    with closing(engines.target(name, context=512, flash_attention=False)) as model:
        starts = range(0, len(TEXT), 8)
        rows = [Row(0, TEXT[at : at + 8], outputs=len(TEXT[at : at + 8])) for at in starts]
        return np.concatenate([model.forward([row])[0].copy() for row in rows])


def close(a, b):
    return np.allclose(a, b, atol=Running.now.rounding, rtol=1e-3)


def read(model, slot, start, end, **wishes):
    """Read the text of a slot from one place to another; return the logits that are asked for."""
    [logits] = model.forward([Row(slot, TEXT[start:end], **wishes)])
    return logits


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("name", KINDS)
def test_a_long_draft_is_taken_back_from_any_place_in_it(name, slots):
    begin = len(PROMPT)
    with closing(engines.target(name, slots=slots, **OPTIONS)) as model:
        for right in PLACES:
            assert model.truncate(0, 0) == 0
            read(model, 0, 0, begin, outputs=0)
            wrong = tokens_of([*TEXT[begin : begin + 1 + right], *[5] * (LENGTH - right)])
            [verified] = model.forward([Row(0, wrong, LENGTH + 1, LENGTH)])
            assert close(list(verified)[: right + 1], plain(name)[begin : begin + 1 + right])
            kept = model.truncate(0, begin + 1 + right)
            assert 0 < kept <= begin + 1 + right
            # Once more, and on: what the rejected tokens left behind would change the logits.
            contents = read(model, 0, kept, begin + 2 + right)
            assert close(contents, plain(name)[begin + 1 + right : begin + 2 + right])


@pytest.mark.parametrize("name", KINDS)
def test_long_drafts_of_several_texts_share_a_batch(name):
    """Their rows are unequally long, and beside them one is a single token."""
    lengths = {0: 150, 1: 70, 2: 3, 3: 0}
    begin = len(PROMPT)
    with closing(engines.target(name, slots=4, **OPTIONS)) as model:
        for slot in lengths:
            read(model, slot, 0, begin, outputs=0)
        rows = [
            Row(slot, TEXT[begin : begin + 1 + count], count + 1, count)
            for slot, count in lengths.items()
        ]
        for logits, count in zip(model.forward(rows), lengths.values(), strict=True):
            assert close(list(logits), plain(name)[begin : begin + 1 + count])
        for slot, count in lengths.items():
            right = count // 2
            kept = model.truncate(slot, begin + 1 + right)
            after = read(model, slot, kept, begin + 2 + right)
            assert close(after, plain(name)[begin + 1 + right : begin + 2 + right])


@pytest.mark.parametrize("name", KINDS)
def test_long_drafts_follow_one_another_whether_they_hold_or_not(name):
    """What a hybrid has to read again piles up before the next draft, and is not lost with it."""
    text, held = TEXT[: len(PROMPT)], 0
    with closing(engines.target(name, slots=1, **OPTIONS)) as model:
        for right in (20, 20, 0, 7, 30, 4):
            end = len(text) + right
            drafted = [*TEXT[len(text) : end], *[5] * (30 - right)]
            row = tokens_of([*text[held:], *drafted])
            [logits] = model.forward([Row(0, row, 31, 30)])
            assert close(list(logits)[: right + 1], plain(name)[len(text) - 1 : end])
            text = TEXT[: end + 1]
            held = model.truncate(0, end)
            assert held <= end
        after = read(model, 0, held, len(text) + 1)
        assert close(after, plain(name)[len(text) : len(text) + 1])


def test_a_hybrid_goes_back_exactly_where_its_snapshots_reach_and_else_to_before_the_draft():
    begin = len(PROMPT)
    for name in ("qwen35", "lfm2"):
        with closing(engines.target(name, slots=1, **OPTIONS)) as model:
            read(model, 0, 0, begin, outputs=0)
            read(model, 0, begin, begin + 101, outputs=101, tentative=100)
            assert model.truncate(0, begin + 95) == begin + 95
            assert model.truncate(0, begin + 50) == begin
            # What has to be read again is not lost with the next draft.
            read(model, 0, begin, begin + 150, outputs=101, tentative=100)
            assert model.truncate(0, begin + 60) == begin + 49


def test_the_longest_draft_fits_the_batch_it_was_loaded_for():
    with closing(engines.target("llama", context=700, batch=514, tentative=512)) as model:
        tokens = tokens_of([(at * at + at // 7) % 6 for at in range(513)])
        [logits] = model.forward([Row(0, tokens, outputs=513, tentative=512)])
        assert logits.shape == (513, model.vocabulary)
        chosen = logits[-1].argmax()
        assert model.truncate(0, 1) == 1
        for at in range(1, 513, 64):
            [logits] = model.forward([Row(0, tokens[at : at + 64])])
        assert logits[-1].argmax() == chosen
