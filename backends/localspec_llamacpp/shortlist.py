"""The tokens that a draft model or head scores: the frequent ones, and those of its text.

The output matrix of a small model with many tokens is a third of what it reads for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localspec.interfaces.backend import Roll
from localspec_llamacpp.bindings.products import ROWS

FREQUENT = 32_768  # tokens: the first of a vocabulary were merged first
LAST = 1_024  # tokens, among which are those that end a turn or begin a call
READ = 2_048  # tokens of a text, the latest
RECENT, MOST_NEW = 48, 4  # latest tokens of a text, and how many may have come unforeseen


def shortlist(vocabulary: int, rolls: Sequence[Roll]) -> NDArray[np.uint8] | None:
    """Choose the panels of the output matrix to compute for some drafts; None: all.

    All are for a text that brings many rare tokens, as in some languages, and for several texts:
    the draft of one is not to depend on the others.
    """
    if vocabulary < 2 * (FREQUENT + LAST) or vocabulary % ROWS:
        return None
    if len(rolls) != 1 or rolls[0].text is None:
        return None
    text = rolls[0].text[-READ:]
    text = text[text >= 0]  # without pictures
    panels = np.zeros(vocabulary // ROWS, np.uint8)
    panels[: FREQUENT // ROWS] = 1
    panels[-LAST // ROWS :] = 1
    own = text // ROWS
    rare = np.flatnonzero(panels[own] == 0)
    own_panels, first = np.unique(own[rare], return_index=True)
    if np.count_nonzero(rare[first] >= len(text) - RECENT) > MOST_NEW:
        return None
    panels[own_panels] = 1
    return panels
