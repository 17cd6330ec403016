"""Parts of any engine: texts continued one forward at a time, and rows checked before one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import BackendError
from localspec.base.tokens import LogitRows, Logits, best, tokens_of
from localspec.interfaces.abilities import MultiStep
from localspec.interfaces.backend import Head, Model, Roll, Row, Saved
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import Draft
from localspec.interfaces.media import Sight

BY = "draft-model"
MIN_CONFIDENCE = 1e-9  # confidence in a sampled token, however unlikely
REACH = 12.0  # of logits below the highest: the tokens further below are not drafted


class Forwards(Protocol):
    def forward(self, rows: Sequence[Row]) -> Sequence[LogitRows]:
        """Read the rows; return logits whose last row is that of the newest token."""


def roll_by_forward(
    model: Forwards, rolls: Sequence[Roll], by: str = BY, steps: MultiStep | None = None
) -> list[Draft]:
    """Implement `Model.roll` by `forward`, and by `steps` from the second token on."""
    rolled = [RolledRow(roll) for roll in rolls]
    while going_on := [path for path in rolled if path.wants]:
        if steps and going_on[0].tokens:
            slots = [path.roll.row.slot for path in going_on]
            newest = [path.tokens[-1] for path in going_on]
            steps.multi_step(slots, newest, partial(step, going_on))
        else:
            rows = model.forward([path.row() for path in going_on])
            step(going_on, [row[-1] for row in rows])
    return [path.draft(by) for path in rolled]


def step(paths: Sequence[RolledRow], logits: Sequence[Logits]) -> list[int] | None:
    """Draw a token for each path; return them, if all are to go on."""
    for path, row in zip(paths, logits, strict=True):
        path.draw(row)
    return [path.tokens[-1] for path in paths] if all(path.wants for path in paths) else None


@dataclass(slots=True)
class RolledRow:
    """The tokens that continue one row so far."""

    roll: Roll
    tokens: list[int] = field(default_factory=list)
    confidences: list[float] = field(default_factory=list)
    steps: int = 0  # that the engine computed, where it looked at tokens late

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
        """Draw the next token from the likely ones: a draft need not follow the law of its model.

        So a row of 152k logits is read three times, and not copied.
        """
        sampler, drawn = self.roll.sampler, self.tokens
        logits = sampler.adjusted(logits, drawn)
        token = best(logits)
        highest, position = logits.item(token), self.roll.start + len(drawn)
        ids = (logits >= highest - REACH * max(sampler.sampling.temperature, 1.0)).nonzero()[0]
        likely = logits[ids]
        if not sampler.is_simple:
            token = sampler.draft_distribution(logits, drawn).draw(sampler.dice, position)
        elif not sampler.sampling.greedy:
            places = sampler.draft_distribution(likely, drawn)
            token = Distribution(ids[places.ids], places.weights).draw(sampler.dice, position)
        weight = math.exp(logits.item(token) - highest)
        likely -= highest
        total = float(np.add.reduce(np.exp(likely, out=likely)))
        self.tokens.append(token)
        self.confidences.append(max(weight / total, MIN_CONFIDENCE))

    def draft(self, by: str = BY) -> Draft:
        return Draft(tokens_of(self.tokens), by, tuple(self.confidences), self.steps)


class WrappedModel:
    """A model around another one, whose `forward` is added; it saves no texts for later."""

    def __init__(self, model: Model) -> None:
        self.tokenizer, self.vocabulary = model.tokenizer, model.vocabulary
        self.slots, self.context, self.pool = model.slots, model.context, model.pool
        self.batch, self.tentative = model.batch, model.tentative
        self.head: Head | None = model.head
        self.sight: Sight | None = model.sight
        self._model = model

    def truncate(self, slot: int, length: int) -> int:
        return self._model.truncate(slot, length)

    def save(self, slot: int, most: int) -> Saved | None:
        return None

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        return self.truncate(slot, 0)

    def free_head(self) -> None:
        self._model.free_head()
        self.head = None

    def close(self) -> None:
        self._model.close()


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
