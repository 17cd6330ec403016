"""Draft token by token, for as long as all of them are likely to be right."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from localspec.draft import EMPTY, Draft
from localspec.proposer import Ask
from localspec.tokens import tokens_of


def draft_of(steps: Iterable[tuple[int, float]], ask: Ask, floor: float, by: str) -> Draft:
    """Draft tokens with these confidences, up to the first with which it no longer pays."""
    tokens: list[int] = []
    confidences: list[float] = []
    pays = ask.pays_above(floor)
    for token, confidence in islice(steps, ask.limit):
        confidences.append(confidence)
        if not pays(confidences):
            confidences.pop()
            break
        tokens.append(token)
    if not tokens:
        return EMPTY
    return Draft(tokens_of(tokens), by, confidences=tuple(confidences))
