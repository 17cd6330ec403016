"""A file in a form, as browsers and libraries send it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from localspec.apps.server.faults import refused

BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
PARAMETER = re.compile(rb'[; ]((?:file)?name)="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
MAX_PARTS = 20
MAX_NAME_LETTERS = 255


@dataclass(frozen=True, slots=True)
class Upload:
    filename: str
    data: bytes
    fields: Mapping[str, str]


def upload_of(body: bytes, content_type: str) -> Upload:
    """Read a form with one file and some fields of text."""
    match = BOUNDARY.search(content_type)
    if not (content_type.lower().startswith("multipart/form-data") and match):
        raise refused("send the file in a form: multipart/form-data, with file and purpose", "file")
    mark = b"\r\n--" + (match[1] or match[2]).encode("utf-8", "replace")
    pieces = (b"\r\n" + body).split(mark, MAX_PARTS)
    fields, file = dict[str, str](), None
    for part in pieces[1:-1]:  # the last is behind the closing mark, or was cut off
        head, _, data = part.partition(b"\r\n\r\n")
        names = {key.lower(): text(value) for key, value in PARAMETER.findall(head)}
        if names.get(b"name") == "file":
            file = names.get(b"filename", ""), data
        else:
            fields[names.get(b"name", "")] = text(data)
    if file is None:
        raise refused("the form has no whole part named file", "file")
    return Upload(*file, fields)


def text(data: bytes) -> str:
    return data[: 4 * MAX_NAME_LETTERS].decode("utf-8", "replace")[:MAX_NAME_LETTERS]
