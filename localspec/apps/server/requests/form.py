"""A body in parts, as browsers and libraries send files: multipart/form-data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

PARAMETER = re.compile(rb'[; ]((?:file)?name)="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
MAX_NAME_BYTES = 1_000


class FormPart(NamedTuple):
    name: str
    filename: str
    data: bytes


def form_parts(body: bytes, most: int) -> Iterator[FormPart]:
    """Read the whole parts of a body, of at most so many; its first line parts them."""
    boundary = body.partition(b"\r\n")[0]
    pieces = (b"\r\n" + body).split(b"\r\n" + boundary, most)
    for piece in pieces[1:-1]:  # the last is behind the closing mark, or was cut off
        head, _, data = piece.partition(b"\r\n\r\n")
        names = {key.lower(): value for key, value in PARAMETER.findall(head)}
        yield FormPart(_name(names.get(b"name", b"")), _name(names.get(b"filename", b"")), data)


def _name(data: bytes) -> str:
    return data[:MAX_NAME_BYTES].decode("utf-8", "replace")
