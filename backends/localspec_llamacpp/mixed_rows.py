"""Rows of a batch that hold pictures, taken apart: llama.cpp reads tokens or embeddings at once."""

from __future__ import annotations

import numpy as np

from localspec.backend import Row
from localspec.tokens import Tokens


def is_picture(tokens: Tokens) -> bool:
    """Return whether tokens, which are all alike, are positions of a picture."""
    return bool(tokens[0] < 0)


def is_mixed(row: Row) -> bool:
    """Return whether a row holds positions of a picture."""
    return bool((row.tokens < 0).any())


def parts(row: Row) -> list[Row]:
    """Cut a row where texts and runs meet; each part has its share of the outputs."""
    pictured = row.tokens < 0
    borders = pictured[1:] != pictured[:-1]
    next_run = pictured[1:] & (np.diff(row.tokens) != -1)
    cut, left = [], row.outputs
    for tokens in reversed(np.split(row.tokens, np.flatnonzero(borders | next_run) + 1)):
        outputs = min(left, len(tokens))
        left -= outputs
        cut.append(row._replace(tokens=tokens, outputs=outputs, tentative=0))
    cut[0] = cut[0]._replace(tentative=row.tentative)
    return cut[::-1]
