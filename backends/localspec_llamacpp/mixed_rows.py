"""Rows of a batch that hold pictures, taken apart: llama.cpp reads tokens or embeddings at once."""

from __future__ import annotations

import numpy as np

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
        cut.append(row._replace(tokens=tokens, outputs=outputs, tentative=0))
    cut[0] = cut[0]._replace(tentative=row.tentative)
    return cut[::-1]
