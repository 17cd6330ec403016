"""Texts of a layout as a stream has them: blanks are free, and identifiers may be missing."""

from __future__ import annotations

import re

from localspec.formats.dialects.incoming_text import IncomingText, Reading
from localspec.formats.dialects.layout import ID, INDEX, SLOT
from localspec.formats.dialects.segments import pieces

IDENTITY = re.compile(r"[\w.:-]+")


def read_text(incoming: IncomingText, text: str) -> Reading[bool]:
    """Read a text whatever its blanks; identifiers in it may be missing with what is before."""
    before = ""
    for part in SLOT.split(text):
        if part in (ID, INDEX):
            if not before or (yield from read_pieces(incoming, before)):
                yield from incoming.blank()
                yield from incoming.run(IDENTITY)
            before = ""
        else:
            before = part
    return not before or (yield from read_pieces(incoming, before))


def read_pieces(incoming: IncomingText, text: str) -> Reading[bool]:
    """Read a text whatever its blanks; return whether all of it was there."""
    for piece in pieces(text):
        yield from incoming.blank()
        if not (yield from incoming.starts(piece)):
            return False
    return True


def read_closing(incoming: IncomingText, text: str) -> Reading[None]:
    """Read what closes calls as far as it is there."""
    for part in SLOT.split(text):
        if part in (ID, INDEX):
            yield from incoming.run(IDENTITY)
            continue
        for piece in pieces(part):
            yield from incoming.blank()
            if (yield from incoming.starts(piece)):
                incoming.begin()
