"""Wraps a draft model that was trained to draft several tokens in one forward (PARD).

It reads a mask in place of each token that is not known yet, and predicts the token at its place:

    read      ... x(n-1) x(n) mask  mask         drafts  x(n+1) x(n+2) x(n+3)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.base.tokens import LogitRows
from localspec.interfaces.backend import Model, Roll, Row
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import RolledRow, WrappedModel


class Masked(WrappedModel):
    """Implements `Model`, whose `roll` takes one forward; no mask stays in a slot."""

    def __init__(self, model: Model, mask: int) -> None:
        super().__init__(model)
        self.head = self.sight = None
        self._mask = mask
        self._held = [0] * model.slots

    def forward(self, rows: Sequence[Row]) -> Sequence[LogitRows]:
        logits = self._model.forward(rows)
        for row in rows:
            self._held[row.slot] += len(row.tokens)
        return logits

    def truncate(self, slot: int, length: int) -> int:
        self._held[slot] = self._model.truncate(slot, length)
        return self._held[slot]

    def copy(self, source: int, target: int, length: int) -> int:
        length = min(length, self._held[source])  # drafts are not among what it holds
        self._held[target] = self._model.copy(source, target, length)
        return self._held[target]

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        """Draft all tokens at once; each is sampled from the logits of its mask."""
        share = max(self.batch // len(rolls), 1)
        rows = [self._row(roll, min(share, self.tentative + 1)) for roll in rolls]
        self._read_ahead(rows, share)
        last_rows = [row._replace(tokens=row.tokens[-share:]) for row in rows]
        paths = [RolledRow(roll) for roll in rolls]
        for path, row, logits in zip(paths, last_rows, self.forward(last_rows), strict=True):
            for place in logits:
                if path.wants:
                    path.draw(place)
            self.truncate(row.slot, self._held[row.slot] - row.tentative)
        return [path.draft() for path in paths]

    def _row(self, roll: Roll, most: int) -> Row:
        """Return a row with masks after its tokens."""
        masks = np.full(min(roll.depth, most) - 1, self._mask, np.int32)
        tokens = np.concatenate((roll.row.tokens, masks))
        return Row(roll.row.slot, tokens, len(masks) + 1, len(masks))

    def _read_ahead(self, rows: Sequence[Row], share: int) -> None:
        """Read the tokens that do not fit into one forward of all rows."""
        for row in rows:
            ahead = row.tokens[:-share]
            for at in range(0, len(ahead), self.batch):
                self.forward([Row(row.slot, ahead[at : at + self.batch], outputs=0)])
