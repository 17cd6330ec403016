"""Guesses one after the other, for as long as all of them may well be right."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from localspec.draft import EMPTY, Draft
from localspec.proposer import Ask
from localspec.tokens import tokens_of


def draft_of(guesses: Iterable[tuple[int, float]], ask: Ask, floor: float, by: str) -> Draft:
    """Stop before the guess with which it no longer pays."""
    tokens: list[int] = []
    confidences: list[float] = []
    pays = ask.pays_above(floor)
    for token, confidence in islice(guesses, ask.limit):
        confidences.append(confidence)
        if not pays(confidences):
            confidences.pop()
            break
        tokens.append(token)
    if not tokens:
        return EMPTY
    return Draft(tokens_of(tokens), by, confidences=tuple(confidences))
