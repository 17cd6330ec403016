"""Long drafts beside other texts: their group of rows is not torn apart."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from localspec.interfaces.backend import Row
from tests import engines

pytestmark = pytest.mark.skipif(not engines.MLX, reason="there is no MLX for this system")

WIDTHS = [(1, 1, 1), (18, 1, 1), (1, 20, 2), (1, 1, 19), (19, 1, 18), (1, 1, 1)]


def rounds(model, texts, widths):
    """Yield each text and the logits of its newest tokens, round after round; accept half."""
    random = np.random.default_rng(2)
    for count in widths:
        drafts = [random.integers(0, 300, width).astype(np.int32) for width in count]
        rows = [Row(at, draft, len(draft), len(draft) - 1) for at, draft in enumerate(drafts)]
        for at, logits in enumerate(model.forward(rows)):
            yield np.concatenate((texts[at], drafts[at])), np.array(list(logits))
        for at, draft in enumerate(drafts):
            whole = np.concatenate((texts[at], draft))
            length = model.truncate(at, len(whole) - len(draft) // 2)
            missing = whole[length : len(whole) - len(draft) // 2]
            if len(missing):  # a recurrent text was taken back further
                model.forward([Row(at, missing)])
            texts[at] = whole[: len(whole) - len(draft) // 2]


def read(model, slot, tokens):
    """Read tokens in pieces, and return the logits of the last few."""
    for start in range(0, len(tokens) - 20, 200):
        model.forward([Row(slot, tokens[start : min(start + 200, len(tokens) - 20)])])
    [logits] = model.forward([Row(slot, tokens[-20:], 20, 19)])
    return np.array(list(logits))


CASES = [("llama", "auto", 0), ("llama", "q8_0", 0), ("qwen3_5", "auto", 0)]
CASES += [("gemma3_text", "auto", 230)]  # so that the 320 cells of its window go round


@pytest.mark.parametrize(("name", "kv_type", "more"), CASES)
def test_rows_of_any_widths_say_what_they_say_alone(name, kv_type, more):
    random = np.random.default_rng(1)
    texts = [random.integers(0, 300, count).astype(np.int32) for count in (60 + more, 20, 33)]
    options = {"context": 512, "batch": 256, "tentative": 20, "kv_type": kv_type}
    with (
        closing(engines.target(f"mlx {name}", slots=3, **options)) as model,
        closing(engines.target(f"mlx {name}", slots=1, **options)) as alone,
    ):
        for at, text in enumerate(texts):
            read(model, at, text)
        for text, logits in rounds(model, texts, WIDTHS):
            alone.truncate(0, 0)
            expected = read(alone, 0, text)[-len(logits) :]
            np.testing.assert_allclose(logits, expected, atol=2e-3)


@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx gemma3_text"))
def test_a_long_draft_leaves_its_group_whole(name):
    texts = [np.arange(5 + at, dtype=np.int32) for at in range(3)]
    options = {"context": 512, "batch": 256, "tentative": 20}
    with closing(engines.target(name, slots=3, **options)) as model:
        model.forward([Row(at, text) for at, text in enumerate(texts)])
        slots = model._runner.slots
        [group] = slots.groups(range(3))
        for _ in rounds(model, texts, WIDTHS):
            assert slots.groups(range(3)) == [group]
        model.forward([Row(1, texts[1][:1])])  # alone, as the others rest
        assert len(slots.groups(range(3))) == 3
