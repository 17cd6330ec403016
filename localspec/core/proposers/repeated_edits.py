"""Edits that a reply makes again and again: a name that changed once changes everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MAX_EDIT = 8  # tokens that an edit replaces, and puts in their place
NOWHERE = -1


@dataclass(slots=True)
class Edit:
    """Tokens of a text that a reply replaced, and how often it did, or kept them later on."""

    old: list[int]
    new: list[int]
    applied: int = 1
    skipped: int = 0

    @property
    def chance(self) -> float:
        """Estimate the chance that it is made where the old tokens come next.

        Measured on revised files, made once: 0.35, and in a rename 1.0; twice: 0.8 and 1.0; once,
        and then not: 0.
        """
        return (self.applied - 0.45) / (self.applied + 2 * self.skipped)


class RepeatedEdits:
    """Follows a text with the edits that were made in it, the latest for each first old token."""

    def __init__(self, text: list[int]) -> None:
        self._text = text
        self._edits: dict[int, Edit] = {}
        self._ahead: list[int] = []  # tokens of the edit that is being made; the place is after it

    def learn(self, old: list[int], new: list[int]) -> None:
        """Learn that the reply replaced some tokens of the text."""
        if 0 < len(old) <= MAX_EDIT and 0 < len(new) <= MAX_EDIT and old[0] != new[0]:
            self._edits[old[0]] = Edit(old, new)

    def step(self, place: int, token: int) -> int:
        """Return the place in the text after one more token of the reply; NOWHERE if they part."""
        if self._ahead:  # the place is behind the edit already
            expected, *self._ahead = self._ahead
            if expected != token:
                self._ahead = []
                return NOWHERE
            return place
        edit = self._at(place)
        if edit and edit.new[0] == token:
            edit.applied += 1
            self._ahead = edit.new[1:]
            return place + len(edit.old)
        if self._text[place : place + 1] != [token]:
            return NOWHERE
        if edit:
            edit.skipped += 1
        return place + 1

    def ahead(self, place: int, limit: int) -> tuple[list[int], Mapping[int, float]]:
        """Return the next tokens, edited, and the chances of those at which an edit may begin."""
        tokens = self._ahead[:limit]
        if not self._edits:
            return tokens + self._text[place : place + limit - len(tokens)], {}
        chances = {}
        while len(tokens) < limit and place < len(self._text):
            edit = self._at(place)
            chance = edit.chance if edit else 0.0
            if edit:
                chances[len(tokens)] = max(chance, 1 - chance)
            if edit and chance >= 0.5:
                tokens += edit.new
                place += len(edit.old)
            else:
                tokens.append(self._text[place])
                place += 1
        return tokens[:limit], chances

    def _at(self, place: int) -> Edit | None:
        """Return the edit whose old tokens come next."""
        if not self._edits or place >= len(self._text):
            return None
        edit = self._edits.get(self._text[place])
        return edit if edit and self._text[place : place + len(edit.old)] == edit.old else None
