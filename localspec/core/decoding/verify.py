"""Exact acceptance (Leviathan et al., 2023): the output follows the target alone."""

from __future__ import annotations

from collections.abc import Callable

from localspec.interfaces.dice import ACCEPT, TARGET, Dice
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
        source = draft.sources[at] if draft.sources else None
        emitted.append(settle(token, source, target(at), dice, start + at))
        if emitted[-1] != token:
            return emitted
    end = len(emitted)
    # The token after the draft is settled like one that was looked up and cannot be right.
    return [*emitted, settle(-1, None, target(end), dice, start + end)]


def settle(
    token: int, source: Distribution | None, target: Distribution, dice: Dice, position: int
) -> int:
    """Return the draft token if it is accepted, else another, by the target's distribution.

    A token that was looked up is accepted when the target samples it. That happens as often as
    rejection sampling would accept it, and gives the text of plain decoding.
    """
    if target.is_certain:
        return int(target.ids[0])
    if source is None or source.is_certain:
        return target.draw(dice.uniform(position, TARGET))
    if dice.uniform(position, ACCEPT) * source.prob(token) < target.prob(token):
        return token
    return target.beyond(source).draw(dice.uniform(position, TARGET))
