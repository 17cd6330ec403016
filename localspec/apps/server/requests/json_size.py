"""Bounds of the JSON in a request, checked before it is parsed.

Parsing a million small objects stops all threads for seconds, in one call of a library. So the
characters between the strings of a body are counted first, piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from localspec.apps.server.faults import refused
from localspec.base.interruption import check_patience

PIECE = 1 << 16  # characters, which take a millisecond


class JsonSize(NamedTuple):
    """Counts the values of each kind in a JSON text, without the insides of its strings."""

    containers: int = 0  # objects and lists
    fields: int = 0
    commas: int = 0
    depth: int = 0  # of containers within each other

    @property
    def values(self) -> int:
        return self.containers + self.commas + 1


# No client is known to come near. So much of each takes 0.2 s to parse and to free.
LIMITS = JsonSize(
    containers=100_000,  # 10,000 messages of six each, and 400 tools of a hundred
    fields=200_000,
    commas=1_200_000,  # a prompt of a million tokens, by number
    depth=200,
)
WORDS = ("objects and lists", "fields", "values", "levels of objects and lists")


def is_small(text: str) -> bool:
    """Return whether a text is within all limits, by as little looking as that takes."""
    containers = text.count("{") + text.count("[")
    return len(text) < LIMITS.containers and containers <= LIMITS.depth


def check_size(text: str, piece_size: int = PIECE) -> JsonSize:
    """Count the parts of a JSON text; refuse one that has too many, and look no further."""
    size, within, level = JsonSize(), 0, 0
    for piece in pieces(text, piece_size):
        check_patience()
        if "\\" in piece:
            piece = piece.replace("\\\\", "").replace('\\"', "")
        parts = piece.split('"')
        outside = "".join(parts[within::2])
        within = (within + len(parts) - 1) % 2
        deepest, level = depths(outside, level)
        size = JsonSize(
            size.containers + outside.count("{") + outside.count("["),
            size.fields + outside.count(":"),
            size.commas + outside.count(","),
            max(size.depth, deepest),
        )
        check(size)
    return size


def pieces(text: str, size: int) -> Iterator[str]:
    """Cut a text where no escaped character is cut apart."""
    begin = 0
    while begin < len(text):
        end = begin + size
        piece = text[begin:end]
        if (len(piece) - len(piece.rstrip("\\"))) % 2:
            piece += text[end : end + 1]
        yield piece
        begin += len(piece)


def depths(outside: str, level: int) -> tuple[int, int]:
    """Return the deepest level of a piece that begins at a level, and the level at its end."""
    signs = np.frombuffer(outside.encode("ascii", "replace"), np.uint8) | 32  # [ is as {
    levels = level + np.cumsum((signs == ord("{")).astype(np.int64) - (signs == ord("}")))
    return (int(levels.max()), int(levels[-1])) if len(levels) else (level, level)


def check(size: JsonSize) -> None:
    for things, count, limit in zip(WORDS, size, LIMITS, strict=True):
        if count > limit:
            raise refused(f"the request has more than {limit:,} {things}: send less at once")
