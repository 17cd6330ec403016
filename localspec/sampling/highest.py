"""The highest of a row of logits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from localspec.tokens import Logits

STRETCH = 128  # logits of which the highest is found first

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

    The count-th highest of the maxima of stretches is a floor under the count-th highest logit.
    """
    maxima = np.maximum.reduceat(logits, all_ids(len(logits))[::STRETCH])
    if count > len(maxima):
        maxima = logits
    found: Ids = (logits >= np.partition(maxima, -count)[-count]).nonzero()[0]
    return found
