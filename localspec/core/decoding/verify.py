"""Exact acceptance: the output is what the target draws, and follows the target alone.

Whoever drafts by a distribution draws with the same random numbers, and so mostly the same tokens
(`Distribution.draw`). So a seed gives one text, with any drafts and without, where the engine
computes the same bits in batches of any width.
"""

from __future__ import annotations

from collections.abc import Callable

from localspec.interfaces.dice import Dice
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import Draft


def verify(
    draft: Draft, target: Callable[[int], Distribution], dice: Dice, start: int
) -> list[int]:
    """Return the tokens to emit: the accepted part of the draft, then one of the target's own.

    `target(i)` is the target's distribution after i draft tokens; it is called in order, and not
    after the first rejection. `start` is the position in the text of the first token.
    """
    emitted: list[int] = []
    for at, token in enumerate(draft.tokens.tolist()):
        emitted.append(target(at).draw(dice, start + at))
        if emitted[-1] != token:
            return emitted
    end = len(emitted)
    return [*emitted, target(end).draw(dice, start + end)]
