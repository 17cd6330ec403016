"""Texts of a layout as a stream has them: blanks are free, and identifiers may be missing."""

from __future__ import annotations

import re

from localspec.formats.dialects.layout import ID, INDEX, SLOT
from localspec.formats.dialects.segments import pieces
from localspec.formats.dialects.text_stream import Reading, TextStream

IDENTITY = re.compile(r"[\w.:-]+")


def read_text(stream: TextStream, text: str) -> Reading[bool]:
    """Read a text whatever its blanks; identifiers in it may be missing with what is before."""
    before = ""
    for part in SLOT.split(text):
        if part in (ID, INDEX):
            if not before or (yield from read_pieces(stream, before)):
                yield from stream.blank()
                yield from stream.run(IDENTITY)
            before = ""
        else:
            before = part
    return not before or (yield from read_pieces(stream, before))


def read_pieces(stream: TextStream, text: str) -> Reading[bool]:
    """Read a text whatever its blanks; return whether all of it was there."""
    for piece in pieces(text):
        yield from stream.blank()
        if not (yield from stream.starts(piece)):
            return False
    return True


def read_closing(stream: TextStream, text: str) -> Reading[None]:
    """Read what closes calls as far as it is there."""
    for part in SLOT.split(text):
        if part in (ID, INDEX):
            yield from stream.run(IDENTITY)
            continue
        for piece in pieces(part):
            yield from stream.blank()
            if (yield from stream.starts(piece)):
                stream.begin()
