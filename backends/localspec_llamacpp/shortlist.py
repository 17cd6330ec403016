"""The tokens that a draft model scores: the frequent ones, and those of the text that it continues.

The output matrix of a small model with many tokens is a third of what it reads for each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import Tokens
from localspec_llamacpp.bindings.products import ROWS

FREQUENT = 24_576  # tokens: the first of a vocabulary were merged first
LAST = 1_024  # among which are those that end a turn or begin a call


def shortlist(vocabulary: int, text: Tokens | None) -> NDArray[np.uint8] | None:
    """Choose the panels of the output matrix to compute; None: all."""
    if text is None or vocabulary < 2 * (FREQUENT + LAST) or vocabulary % ROWS:
        return None
    panels = np.zeros(vocabulary // ROWS, np.uint8)
    panels[: FREQUENT // ROWS] = 1
    panels[-LAST // ROWS :] = 1
    panels[text // ROWS] = 1
    return panels
