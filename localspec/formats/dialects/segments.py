"""Texts of a template taken apart: marks, words, blanks and single signs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

MARK = re.compile(r"\]<\]\w{1,40}\[>\[|<[^<>\n]{1,80}>|\[/?[A-Z][A-Z_ ]{1,40}\]")
WAYS = re.compile(r"/|start|end|begin|open|close", re.IGNORECASE)
MARK_LAST = re.compile(rf"({MARK.pattern})[^<>\[\]]*\Z")
SEGMENT = re.compile(rf"{MARK.pattern}|\s+|[^\W\d]+|\d+|[\W_]")
PIECE = re.compile(rf"""{MARK.pattern}|[{{}}\[\]"',:]|[^\s<{{}}\[\]"',:]+|<[^\s<{{}}\[\]"',:]*""")


def segments(text: str) -> list[str]:
    return SEGMENT.findall(text)


def pieces(text: str) -> list[str]:
    """Cut a text into the pieces to be found, wherever blanks may stand."""
    return PIECE.findall(text)


def marks(text: str) -> list[str]:
    """List everything in a text that may be a control token."""
    return MARK.findall(text)


def closing_of(opening: str, after: str) -> str:
    """Return the mark with which a text begins, if its name closes `opening`."""
    closing = MARK.match(after.lstrip())
    if not closing or closing[0] == opening:
        return ""
    one, other = (WAYS.sub("", mark) for mark in (opening, closing[0]))
    return closing[0] if one == other and any(map(str.isalnum, one)) else ""


def common_start(one: str, other: str) -> str:
    """Return what two texts begin with, in whole segments."""
    pairs = zip(segments(one), segments(other), strict=False)
    return "".join(a for a, b in takewhile(lambda pair: pair[0] == pair[1], pairs))


def common_end(one: str, other: str) -> str:
    """Return what two texts end with, in whole segments."""
    pairs = zip(reversed(segments(one)), reversed(segments(other)), strict=False)
    shared = [a for a, b in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return "".join(reversed(shared))


def distinct(text: str, others: Sequence[str]) -> str:
    """Return the shortest beginning of a text that none of the others contains."""
    start = ""
    for segment in segments(text):
        start += segment
        if not start.isspace() and not any(start.strip() in other for other in others):
            break
    return start.strip()
