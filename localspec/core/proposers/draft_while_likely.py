"""Draft token by token, for as long as all of them are likely to be right."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import islice

from localspec.base.tokens import tokens_of
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask

FEW = 16  # tokens after each of which the rule is asked; then after twice as many


def draft_of(steps: Iterable[tuple[int, float]], ask: Ask, floor: float, by: str) -> Draft:
    """Draft tokens with these confidences, up to the first with which it no longer pays."""
    tokens: list[int] = []
    confidences: list[float] = []
    pays, steps = ask.pays_above(floor), iter(steps)
    for token, confidence in islice(steps, min(ask.limit, FEW)):
        confidences.append(confidence)
        if not pays(confidences):
            confidences.pop()
            steps = iter(())
            break
        tokens.append(token)
    while more := list(islice(steps, min(len(tokens), ask.limit - len(tokens)))):
        before = len(tokens)
        tokens += [token for token, _ in more]
        confidences += [confidence for _, confidence in more]
        if not pays(confidences):
            ends = range(before + 1, len(tokens))
            length = before + bisect_left(ends, 1, key=lambda end: not pays(confidences[:end]))
            del tokens[length:], confidences[length:]
            break
    if not tokens:
        return EMPTY
    return Draft(tokens_of(tokens), by, confidences=tuple(confidences))
