"""Slots that draft together, with all that can happen to their texts in between."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pytest

from localspec.base.tokens import common_prefix
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Model, Roll, Row
from tests import engines

SLOTS, DEPTH = 3, 3
NOTHING = np.zeros(0, np.int32)
# Of 16 drafts at most so many may differ by rounding. A head with windows forgets some keys, too.
MOST = {"step35-chain-mtp": 2}


def roll(model, texts):
    """Draft after texts whose newest token the trunk has not read, by slot, to a depth each."""
    rolls = [
        Roll(Row(slot, text[-1:]), depth, Sampler(GREEDY, 0, text), len(text))
        for slot, (text, depth) in texts.items()
    ]
    drafts = model.head.roll(rolls)
    return {slot: draft.tokens.tolist() for slot, draft in zip(texts, drafts, strict=True)}


@dataclass
class Storm:
    model: Model
    rng: np.random.Generator
    held: list = field(default_factory=lambda: [NOTHING] * SLOTS)

    def some(self, most):
        return self.rng.integers(300, 380, self.rng.integers(1, most)).astype(np.int32)

    def disturb(self, slot):
        """Give up, save, copy, verify or catch up in a slot; return the text to go on with."""
        text = self.held[slot]
        match self.rng.integers(6):
            case 0:
                text = text[: len(text) // 2]
            case 1 if len(text):
                saved = self.model.save(slot, 1 << 30)
                assert self.model.restore(slot, saved.data, len(text)) == len(text)
            case 2:
                source = int(self.rng.integers(SLOTS))
                text = self.held[source] if source != slot else text
                if source != slot and len(text):
                    self.held[slot] = text[: self.model.copy(source, slot, len(text))]
            case 3 if len(text):
                wrong = self.some(2).repeat(4)
                self.model.forward([Row(slot, wrong, 4, 3)])
                text = np.concatenate((text, wrong[:2]))
                self.held[slot] = text[: self.model.truncate(slot, len(text))]
            case 4:
                self.model.head.catch_up([slot])
        return text

    def follow(self, slot, text):
        kept = self.model.truncate(slot, common_prefix(self.held[slot], text))
        piece = int(self.rng.integers(1, 60))
        for at in range(kept, len(text), piece):
            self.model.forward([Row(slot, text[at : at + piece])])
        self.held[slot] = text

    def drafts(self):
        """Disturb all slots, then draft in some; return the texts with depths, and the drafts."""
        for slot in range(SLOTS):
            self.follow(slot, np.concatenate((self.disturb(slot)[-300:], self.some(90))))
        expected = {
            slot: (np.append(text, self.some(2)), int(self.rng.integers(1, DEPTH + 1)))
            for slot, text in enumerate(self.held)
            if self.rng.random() < 0.8
        }
        return expected, roll(self.model, expected)


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        ("qwen35-mtp", True),
        ("gemma4-mtp", False),
        ("hy_v3-chain-mtp", True),
        ("step35-chain-mtp", False),
        ("mimo2-chain-mtp", True),
        ("qwen35-eagle3", True),
        ("llama-eagle3", False),
        ("qwen35-dflash", True),
        ("llama-dflash", False),
    ],
)
def test_drafts_depend_on_the_text_alone(name, shared):
    differ = seen = 0
    with (
        closing(engines.target(name, shared=shared)) as model,
        closing(engines.target(name, slots=1)) as fresh,
    ):
        storm = Storm(model, np.random.default_rng(5))
        while seen < 16:
            expected, made = storm.drafts()
            for slot, (text, depth) in expected.items():
                fresh.truncate(0, 0)
                for at in range(0, len(text) - 1, 60):
                    fresh.forward([Row(0, text[at : min(at + 60, len(text) - 1)])])
                differ += made[slot] != roll(fresh, {0: (text, depth)})[0]
                seen += 1
    assert differ <= MOST.get(name, 1)
