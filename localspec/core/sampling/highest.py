"""The highest of a row of logits."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

GROUP_SIZE = 128  # logits of which the highest is found first

Ids = NDArray[np.int64]
Scores = NDArray[np.floating]


@lru_cache(maxsize=4)
def all_ids(count: int) -> Ids:
    ids = np.arange(count)
    ids.setflags(write=False)
    return ids


def top(logits: Scores, count: int) -> Ids:
    """Return the ids of the `count` highest logits, highest first; of equals the lower id."""
    ids = all_ids(len(logits)) if count >= len(logits) else reaching_top(logits, count)
    order = np.lexsort((ids, -logits[ids]))
    return ids[order[:count]]


def reaching_top(logits: Scores, count: int) -> Ids:
    """Return the ids of at least `count` logits, the highest among them, or of all above -inf.

    The count-th highest of the maxima of groups is a floor under the count-th highest logit.
    """
    groups = len(logits) // GROUP_SIZE
    if count > groups:
        floor = np.partition(logits, -count)[-count]
    else:
        maxima = logits[: GROUP_SIZE * groups].reshape(GROUP_SIZE, groups).max(axis=0)
        maxima.sort()
        floor = maxima[-count]
    # Where a grammar allows few tokens, the others are not to be sorted: 152k take 40 ms.
    ids: Ids = (logits > floor if floor == -np.inf else logits >= floor).nonzero()[0]
    return ids
