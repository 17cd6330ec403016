"""The steps that drafts on MLX take, beside their tokens."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Roll, Row
from localspec.interfaces.draft_stopping import likely
from localspec.interfaces.forward_loop import roll_by_forward
from localspec_mlx import backend as mlx
from tests import engines, tiny_mlx
from tests.backends.test_mlx_ahead import KINDS, of_few_words

DEPTHS = (4, 8, 16)
FLOORS = (1e-3, 0.1, 0.4, 0.9)
TEXTS = [np.random.default_rng(at).integers(300, 380, 12).astype(np.int32) for at in range(4)]


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.7, top_k=20)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx qwen3_5"))
def test_a_draft_model_computes_one_step_more_than_it_drafts_at_most(name, sampling):
    lengths = set()
    with closing(engines.draft(name, tentative=16, batch=128)) as model:
        for depth, floor, text in product(DEPTHS, FLOORS, TEXTS):
            roll = rolled(text, depth, floor, sampling)
            before = model.host.evaluations
            [draft] = model.roll([roll])
            assert draft.steps == model.host.evaluations - before
            assert len(draft) <= draft.steps <= min(len(draft) + 1, depth)
            assert model.truncate(0, 99) == len(text) + len(draft) - 1
            model.truncate(0, 0)
            [expected] = roll_by_forward(model, [roll])
            model.truncate(0, 0)
            assert draft.tokens.tolist() == expected.tokens.tolist()
            lengths.add(len(draft))
    assert lengths > {1, 2}


def rolled(text, depth, floor, sampling=GREEDY, newest=0):
    """Ask for a draft for a text of which the slot holds all but the newest tokens, or nothing."""
    row = Row(0, text[-newest:])
    return Roll(row, depth, Sampler(sampling, 3, text), len(text), likely(floor))


@pytest.mark.parametrize("name", ["qwen3_5-mtp", "llama-eagle3", "qwen3_5-medusa"])
def test_a_head_computes_one_step_a_draft_in_vain_at_most_on_average(name, tmp_path):
    """Drafts that are begun ahead are no longer than the two before them."""
    folder, kind = tmp_path / "made", name.rpartition("-")[2]
    head = tiny_mlx.write_with_head(folder, KINDS[name], kind)
    of_few_words(folder)
    options = replace(engines.OPTIONS, threads=None, tentative=16, batch=128, head=head)
    ahead, lengths = 0, set()
    with closing(mlx.load(folder, options)) as model:
        for depth, floor in product(DEPTHS, FLOORS):
            drafts = [pair for text in TEXTS for pair in rounds(model, text, depth, floor)]
            tokens = sum(len(draft) for draft, _ in drafts)
            steps = sum(draft.steps for draft, _ in drafts)
            assert tokens <= steps <= tokens + len(drafts)
            ahead += sum(begun for _, begun in drafts)
            lengths |= {len(draft) for draft, _ in drafts}
    assert ahead > 20
    assert len(lengths) > 1


def rounds(model, text, depth, floor):
    """Let a text go on by drafts of a head; tell of each whether all of it was begun ahead."""
    model.truncate(0, 0)
    model.forward([Row(0, text[:-1])])
    held = len(text) - 1
    for _ in range(5):
        before = model.host.evaluations
        [draft] = model.head.roll([rolled(text, depth, floor, newest=1)])
        yield draft, model.host.evaluations == before
        tokens = draft.tokens.tolist()
        row = Row(0, np.append(text[held:], draft.tokens), len(draft) + 1, len(draft))
        [logits] = model.forward([row])
        chosen = [int(row.argmax()) for row in logits]
        right = next((at for at, token in enumerate(tokens) if token != chosen[at]), len(draft))
        text = np.append(text, tokens_of(chosen[: right + 1]))
        held = model.truncate(0, len(text) - 1)
