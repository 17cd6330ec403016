"""Parts of any engine: texts continued one forward at a time, and rows checked before one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from localspec.base.errors import BackendError
from localspec.base.tokens import LogitRows, Logits, tokens_of
from localspec.interfaces.backend import Model, Roll, Row
from localspec.interfaces.draft import Draft

BY = "draft-model"
MIN_CONFIDENCE = 1e-9  # confidence in a sampled token, however unlikely


class Forwards(Protocol):
    def forward(self, rows: Sequence[Row]) -> Sequence[LogitRows]:
        """Read the rows; return logits whose last row is that of the newest token."""


def roll_by_forward(model: Forwards, rolls: Sequence[Roll], by: str = BY) -> list[Draft]:
    """Implement `Model.roll` for an engine that has nothing better than `forward`."""
    rolled = [RolledRow(roll) for roll in rolls]
    while going_on := [path for path in rolled if path.wants]:
        rows = model.forward([path.row() for path in going_on])
        for path, logits in zip(going_on, rows, strict=True):
            path.draw(logits[-1])
    return [path.draft(by) for path in rolled]


@dataclass(slots=True)
class RolledRow:
    """The tokens that continue one row so far."""

    roll: Roll
    tokens: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)

    @property
    def wants(self) -> bool:
        """Whether another token is to be drawn."""
        if not self.tokens:
            return self.roll.depth > 0
        roll, drawn = self.roll, self.tokens
        more = len(drawn) < roll.depth and roll.pays(self.confidences)
        return more and not roll.sampler.over(drawn)

    def row(self) -> Row:
        if not self.tokens:
            return self.roll.row
        drawn = len(self.tokens)
        return Row(self.roll.row.slot, tokens_of(self.tokens[-1:]), tentative=drawn)

    def draw(self, logits: Logits) -> None:
        sampler = self.roll.sampler
        logits = sampler.masked(logits, self.tokens)
        source = sampler.distribution_of_masked(logits, self.tokens)
        position = self.roll.start + len(self.tokens)
        token = source.draw(sampler.dice, position)
        self.tokens.append(token)
        self.confidences.append(confidence(logits, token))

    def draft(self, by: str = BY) -> Draft:
        return Draft(tokens_of(self.tokens), by, tuple(self.confidences))


def confidence(logits: Logits, token: int) -> float:
    """Compute the model's own probability of a token, at temperature 1."""
    weights = logits - logits.max()
    np.exp(weights, out=weights)
    return max(float(weights[token] / weights.sum()), MIN_CONFIDENCE)


def check(model: Model, rows: Sequence[Row], held: Sequence[int]) -> None:
    """Refuse rows that a model, whose slots hold so many tokens, cannot take."""
    total = 0
    for row, length in zip(rows, held, strict=True):
        width = len(row.tokens)
        total += width if model.sight is None else int((row.tokens >= 0).sum())
        end = length + width
        if not width:
            raise BackendError(f"there are no tokens for slot {row.slot}")
        if end > model.context:
            raise BackendError(f"slot {row.slot} holds {model.context:,} tokens, not {end:,}")
        if row.outputs > model.tentative + 1:
            raise BackendError(f"{row.outputs} outputs; at most {model.tentative + 1}")
    if not rows or total > model.batch:  # positions of media go in batches of their own
        raise BackendError(f"a batch has {total} tokens; it must be 1 to {model.batch}")
