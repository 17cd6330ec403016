"""The tokens that a draft model scores: the frequent ones, and those of the text that it continues.

The output matrix of a small model with many tokens is a third of what it reads for each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import Tokens
from localspec_llamacpp.bindings.products import ROWS

FREQUENT = 32_768  # tokens: the first of a vocabulary were merged first
LAST = 1_024  # tokens, among which are those that end a turn or begin a call
RECENT, MOST_NEW = 64, 0.1  # tokens of a text that were on no list yet when they came, and how many


def shortlist(vocabulary: int, text: Tokens | None) -> NDArray[np.uint8] | None:
    """Choose the panels of the output matrix to compute; None: all.

    All are for a text whose latest tokens were mostly not to be foreseen, as of other languages.
    """
    if text is None or vocabulary < 2 * (FREQUENT + LAST) or vocabulary % ROWS:
        return None
    panels = np.zeros(vocabulary // ROWS, np.uint8)
    panels[: FREQUENT // ROWS] = 1
    panels[-LAST // ROWS :] = 1
    own, recent = text // ROWS, min(RECENT, len(text))
    rare = np.flatnonzero(panels[own] == 0)
    own_panels, first = np.unique(own[rare], return_index=True)
    if np.count_nonzero(rare[first] >= len(text) - recent) > MOST_NEW * recent:
        return None
    panels[own_panels] = 1
    return panels
