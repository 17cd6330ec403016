"""Texts of a layout as a stream has them: blanks are free, and identifiers may be missing."""

from __future__ import annotations

import re

from localspec.formats.dialects.layout import ID, INDEX, SLOT
from localspec.formats.dialects.segments import pieces
from localspec.formats.dialects.tape import Reading, Tape

IDENTITY = re.compile(r"[\w.:-]+")


def read_text(tape: Tape, text: str) -> Reading[bool]:
    """Read a text whatever its blanks; identifiers in it may be missing with what is before."""
    before = ""
    for part in SLOT.split(text):
        if part in (ID, INDEX):
            if not before or (yield from read_pieces(tape, before)):
                yield from tape.blank()
                yield from tape.run(IDENTITY)
            before = ""
        else:
            before = part
    return not before or (yield from read_pieces(tape, before))


def read_pieces(tape: Tape, text: str) -> Reading[bool]:
    """Read a text whatever its blanks; return whether all of it was there."""
    for piece in pieces(text):
        yield from tape.blank()
        if not (yield from tape.starts(piece)):
            return False
    return True


def read_closing(tape: Tape, text: str) -> Reading[None]:
    """Read what closes calls as far as it is there."""
    for part in SLOT.split(text):
        if part in (ID, INDEX):
            yield from tape.run(IDENTITY)
            continue
        for piece in pieces(part):
            yield from tape.blank()
            if (yield from tape.starts(piece)):
                tape.begin()
