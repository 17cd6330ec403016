"""The highest of a row of logits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from localspec.tokens import Logits

ROWS = 128  # of the grid a row of logits is laid out in, to find the highest

Ids = NDArray[np.int64]


@lru_cache(maxsize=4)
def all_ids(count: int) -> Ids:
    ids = np.arange(count)
    ids.setflags(write=False)
    return ids


def top(logits: Logits, count: int) -> Ids:
    """The ids of the `count` highest logits, highest first; of equals the lower id."""
    ids = all_ids(len(logits)) if count >= len(logits) else _reaching(logits, count)
    order = np.lexsort((ids, -logits[ids]))
    return ids[order[:count]]


def _reaching(logits: Logits, count: int) -> Ids:
    """Ids of at least `count` logits, the highest among them.

    The count-th highest of the maxima of columns is a floor under the count-th highest logit, so
    only the few columns that reach it are searched: 0.1 ms for the 40 highest of 152k.
    """
    width = len(logits) // ROWS
    if count >= width:
        return np.flatnonzero(logits >= np.partition(logits, -count)[-count])
    grid = logits[: width * ROWS].reshape(ROWS, width)
    maxima = grid.max(axis=0)
    floor = np.partition(maxima, -count)[-count]
    columns = np.flatnonzero(maxima >= floor)
    row, at = np.nonzero(grid[:, columns] >= floor)
    rest = np.flatnonzero(logits[width * ROWS :] >= floor)
    return np.concatenate((row * width + columns[at], width * ROWS + rest))
