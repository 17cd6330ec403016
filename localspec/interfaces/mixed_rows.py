"""Rows of a batch that hold pictures, taken apart: a forward reads tokens or embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from localspec.base.tokens import LogitRows, Logits
from localspec.interfaces.backend import Row


def is_mixed(row: Row) -> bool:
    """Return whether a row holds positions of a picture."""
    return bool((row.tokens < 0).any())


def parts(row: Row, batch: int) -> list[Row]:
    """Cut a row where texts and runs meet, and long runs; each part has its share of outputs."""
    pictured = row.tokens < 0
    borders = pictured[1:] != pictured[:-1]
    next_run = pictured[1:] & (np.diff(row.tokens) != -1)
    pieces = [
        piece
        for tokens in np.split(row.tokens, np.flatnonzero(borders | next_run) + 1)
        for piece in np.split(tokens, range(batch, len(tokens), batch))
    ]
    cut, left = [], row.outputs
    for tokens in reversed(pieces):
        outputs = min(left, len(tokens))
        left -= outputs
        cut.append(Row(row.slot, tokens, outputs))
    cut[0] = cut[0]._replace(tentative=row.tentative, next=row.next)
    return cut[::-1]


def forward_in_parts(
    rows: Sequence[Row],
    batch: int,
    forward: Callable[[Sequence[Row]], Sequence[LogitRows]],
    look: Callable[[Row], LogitRows],
) -> list[LogitRows]:
    """Read pictures and the texts before them, piece by piece, then the last texts at once.

    look: reads a picture, or a part of it; its logits are valid for as long as somebody has them
    """
    before: dict[int, list[Logits]] = {row.slot: [] for row in rows}
    ends: dict[int, LogitRows] = {}
    last = list[Row]()
    for row in rows:
        *ahead, end = parts(row, batch)
        for part in ahead:
            logits = look(part) if is_mixed(part) else forward([part])[0]
            before[row.slot] += [one.copy() for one in logits]
        if is_mixed(end):
            ends[row.slot] = look(end)
        else:
            last.append(end)
    for row, logits in zip(last, forward(last) if last else (), strict=True):
        ends[row.slot] = logits
    return [
        np.stack([*before[row.slot], *ends[row.slot]]) if before[row.slot] else ends[row.slot]
        for row in rows
    ]
