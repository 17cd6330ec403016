"""Continue texts by a model's own tokens, one forward at a time: any engine's fallback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from localspec.backend import Model, Roll, Row
from localspec.distribution import Distribution
from localspec.draft import Draft
from localspec.sampler import DRAFT
from localspec.tokens import Logits, tokens_of

BY = "draft-model"


def roll_by_forward(model: Model, rolls: Sequence[Roll], floor: float) -> list[Draft]:
    """`Model.roll` for an engine that has nothing better than `forward`."""
    paths = [Path(roll) for roll in rolls]
    while live := [path for path in paths if path.wants(floor)]:
        for path, logits in zip(live, model.forward([p.row() for p in live]), strict=True):
            path.draw(logits[-1])
    return [path.draft() for path in paths]


@dataclass(slots=True)
class Path:
    """One continuation under way."""

    roll: Roll
    tokens: list[int] = field(default_factory=list)
    sources: list[Distribution] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)

    def wants(self, floor: float) -> bool:
        return len(self.tokens) < self.roll.depth and float(np.prod(self.confidences)) >= floor

    def row(self) -> Row:
        if not self.tokens:
            return self.roll.row
        drawn = len(self.tokens)
        return Row(self.roll.row.slot, tokens_of(self.tokens[-1:]), tentative=drawn)

    def draw(self, logits: Logits) -> None:
        sampler = self.roll.sampler
        source = sampler.distribution(logits, self.tokens)
        position = self.roll.start + len(self.tokens)
        token = source.draw(sampler.dice.roll(position, DRAFT))
        self.tokens.append(token)
        self.sources.append(source)
        self.confidences.append(confidence(logits, token))

    def draft(self) -> Draft:
        sources, confidences = tuple(self.sources), tuple(self.confidences)
        return Draft(tokens_of(self.tokens), BY, sources, confidences)


def confidence(logits: Logits, token: int) -> float:
    """The model's own probability of a token, at temperature 1."""
    weights = logits - logits[token]
    np.exp(weights, out=weights)
    return 1.0 / float(weights.sum())
