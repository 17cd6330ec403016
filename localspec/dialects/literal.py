"""Texts of a layout as a stream has them: blanks are free, and identifiers may be missing."""

from __future__ import annotations

import re

from localspec.dialects.layout import ID, INDEX, SLOT
from localspec.dialects.segments import pieces
from localspec.dialects.tape import Reading, Tape

IDENTITY = re.compile(r"[\w.:-]+")


def literal(tape: Tape, text: str) -> Reading[bool]:
    """Read a text whatever its blanks; identifiers in it may be missing with what is before."""
    before = ""
    for part in SLOT.split(text):
        if part in (ID, INDEX) and part:
            if not before or (yield from whole(tape, before)):
                yield from tape.blank()
                yield from tape.run(IDENTITY)
            before = ""
        else:
            before = part
    return not before or (yield from whole(tape, before))


def whole(tape: Tape, text: str) -> Reading[bool]:
    for each in pieces(text):
        yield from tape.blank()
        if not (yield from tape.starts(each)):
            return False
    return True


def rest(tape: Tape, text: str) -> Reading[None]:
    """Read what closes calls as far as it is there."""
    for each in SLOT.split(text):
        if each in (ID, INDEX) and each:
            yield from tape.run(IDENTITY)
            continue
        for piece in pieces(each):
            yield from tape.blank()
            if (yield from tape.starts(piece)):
                tape.begin()
