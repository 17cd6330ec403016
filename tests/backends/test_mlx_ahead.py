"""Drafts of MLX heads that are begun while the target verifies the last ones."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from localspec.base.tokens import NONE
from localspec.core.decoding.verify import verify
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Roll, Row
from localspec.interfaces.draft import Draft
from localspec_mlx import backend as mlx
from tests import engines, tiny_mlx

OPTIONS = replace(engines.OPTIONS, threads=None, slots=4)
TOKENS = 384
WORDS = (301, 303, 306)
TEXTS = [
    np.random.default_rng(at).integers(300, 308, 20 + 7 * at).astype(np.int32) for at in (1, 2)
]
DICE = Sampling(temperature=0.5, top_k=3)
DEPTH = 4


def of_few_words(folder):
    """Let a model and its head say little but three tokens, so that some drafts are accepted."""
    for path in folder.rglob("*.safetensors"):
        weights = mx.load(str(path))
        tied = not any(
            part in name for name in weights for part in ("lm_head", "head.0", "fc.", "d2t")
        )
        for name, array in weights.items():
            if "lm_head" in name or (array.shape[0] == TOKENS and (tied or "emb" not in name)):
                shifts = np.array(weights.get("d2t", 0))
                tokens = np.arange(len(array)) + (shifts if "lm_head" in name else 0)
                loud = np.isin(tokens, WORDS)[:, None]
                weights[name] = mx.array(np.where(loud, array, array * 0.05))
        mx.save_safetensors(str(path), weights, metadata={"format": "mlx"})


KINDS = {**tiny_mlx.WITH_HEADS, "qwen3_5-dspark": "qwen3_5", "qwen3_5-dflash2": "qwen3_5"}


AHEAD = [name for name in KINDS if name != "llama-layerskip"]  # which writes where its target does


@pytest.fixture(scope="module", params=KINDS)
def folders(request, tmp_path_factory):
    kind = request.param.rpartition("-")[2]
    folder = tmp_path_factory.mktemp("ahead") / "made"
    head = tiny_mlx.write_with_head(folder, KINDS[request.param], kind)
    of_few_words(folder)
    return folder, head


class Replies:
    """Some texts of one model, each in a slot, that go on by rounds of drafts."""

    def __init__(self, model, sampling, texts=TEXTS):
        self.model = model
        self.texts = [np.array(text) for text in texts]
        self.samplers = [Sampler(sampling, at + 5, t) for at, t in enumerate(texts)]
        self.held = [len(text) - 1 for text in texts]
        self.accepted = []
        for slot in range(len(texts)):
            model.truncate(slot, 0)
        model.forward([Row(slot, text[:-1]) for slot, text in enumerate(texts)])

    def drafts(self, slots=None, depth=DEPTH):
        slots = range(len(self.texts)) if slots is None else slots
        rolls = [self.roll(slot, slot, depth) for slot in slots]
        return self.model.head.roll(rolls)

    def roll(self, at, slot, depth=DEPTH):
        text = self.texts[at]
        return Roll(Row(slot, text[-1:]), depth, self.samplers[at], len(text))

    def afresh(self, at, depth=DEPTH):
        """Draft for a text as if it had just been read."""
        self.model.truncate(3, 0)
        self.model.forward([Row(3, self.texts[at][:-1])])
        [draft] = self.model.head.roll([self.roll(at, 3, depth)])
        return draft

    def verify(self, drafts):
        rows = []
        for slot, (text, draft) in enumerate(zip(self.texts, drafts, strict=True)):
            tokens = np.concatenate((text[self.held[slot] :], draft.tokens))
            rows.append(Row(slot, tokens, len(draft) + 1, len(draft)))
        for slot, logits in enumerate(self.model.forward(rows)):
            self.go_on(slot, drafts[slot], np.array(logits))

    def go_on(self, slot, draft, logits):
        sampler, text = self.samplers[slot], self.texts[slot]
        verified = verify(
            draft, lambda at: sampler.distribution(logits[at]), sampler.dice, len(text)
        )
        self.accepted.append(len(verified) - 1)
        self.texts[slot] = np.append(text, np.array(verified, np.int32))
        self.held[slot] = self.model.truncate(slot, len(self.texts[slot]) - 1)


@pytest.mark.parametrize("folders", AHEAD, indirect=True)
def test_drafts_begun_ahead_are_those_that_are_made_when_asked_for(folders):
    folder, head = folders
    accepted = []
    with closing(mlx.load(folder, replace(OPTIONS, head=head))) as model:
        for sampling in (GREEDY, DICE):
            replies = Replies(model, sampling)
            drafts = replies.drafts()
            for _ in range(6):
                replies.verify(drafts)
                before = model.host.evaluations
                drafts = replies.drafts()
                assert model.host.evaluations == before  # they were there
                for at, draft in enumerate(drafts):
                    fresh = replies.afresh(at)
                    assert draft.tokens.tolist() == fresh.tokens.tolist()
                    assert draft.confidences == pytest.approx(fresh.confidences, rel=1e-3)
            accepted += replies.accepted
    assert len(set(accepted)) > 1


def test_whatever_was_begun_ahead_a_draft_is_the_one_for_its_text(folders):
    """Drafts are cut, longer than begun, asked for by some texts alone, or not at all."""
    folder, head = folders
    random = np.random.default_rng(5)
    with closing(mlx.load(folder, replace(OPTIONS, head=head))) as model:
        replies = Replies(model, GREEDY)
        for _ in range(8):
            asked = [slot for slot in range(2) if random.integers(3)]
            depth, cut = random.integers(1, 6, 2).tolist()
            drafts = [Draft(NONE, "")] * 2
            for slot, draft in zip(asked, replies.drafts(asked, depth), strict=True):
                fresh = replies.afresh(slot, depth)
                assert draft.tokens.tolist() == fresh.tokens.tolist()
                drafts[slot] = replace(draft, tokens=draft.tokens[:cut])
            replies.verify(drafts)


@pytest.mark.parametrize("folders", AHEAD, indirect=True)
def test_drafts_that_are_not_asked_for_are_begun_no_more(folders):
    folder, head = folders
    with closing(mlx.load(folder, replace(OPTIONS, head=head))) as model:
        replies = Replies(model, GREEDY, TEXTS[:1])
        begun = []
        for _ in range(4):
            drafts = replies.drafts()
            before = model.host.evaluations
            replies.verify(drafts)
            begun.append(model.host.evaluations - before > 1)
            replies.verify([Draft(NONE, "")])  # another proposer's turn
        assert begun == [True, False, False, False]
        replies.verify(replies.drafts())
        replies.verify(replies.drafts())
        before = model.host.evaluations
        replies.drafts()
        assert model.host.evaluations == before  # begun again, as it is asked each time


def test_texts_draft_together_of_which_one_has_begun(folders):
    """They once left their heads: some states were a target's, others a head's own."""
    folder, head = folders
    with closing(mlx.load(folder, replace(OPTIONS, head=head))) as model:
        for depth in (1, 2, 3):
            replies = Replies(model, GREEDY)
            [draft] = replies.drafts([0], depth)
            replies.verify([draft, Draft(NONE, "")])
            for slot, found in enumerate(replies.drafts(depth=DEPTH)):
                assert found.tokens.tolist() == replies.afresh(slot).tokens.tolist() != []
