"""The part of a long text that a draft model reads: its first tokens and the latest.

    text     aaaa bbbbbbbbbbbbbbbbbbbbbb cccccccccccccc
    window   aaaa                        cccccccccccccc

Attention sinks in the first tokens: without them a model loses the thread. What lies between is
left out by halves of a window, so that a model rarely has to read again. A window depends on the
text alone; it is read from position 0 on, so that no model gets beyond what it was trained for.
"""

from __future__ import annotations

import numpy as np

from localspec.base.tokens import Tokens

SINKS = 4  # tokens at the start of a text that are kept
MIN_WINDOW = 2 * SINKS  # tokens


def window(text: Tokens, length: int, size: int) -> Tokens:
    """Return at most `size` tokens of a text, all if it is no longer.

    Of a text that will have `length` tokens, and of which there is only the beginning, it returns
    those that are in the window in the end.
    """
    if length <= size:
        return text
    step = (size - SINKS) // 2
    left_out = -((size - length) // step) * step
    return np.concatenate((text[:SINKS], text[SINKS + left_out :]))
