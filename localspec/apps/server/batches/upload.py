"""A file in a form, with fields of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.form import form_parts
from localspec.apps.server.safety import FORM

MAX_PARTS = 20
MAX_LETTERS = 255  # of a name, and of a field


@dataclass(frozen=True, slots=True)
class Upload:
    filename: str
    data: bytes
    fields: Mapping[str, str]


def upload_of(body: bytes, content_type: str) -> Upload:
    """Read a form with one file and some fields of text."""
    if not content_type.lower().startswith(FORM):
        raise refused(f"send the file in a form: {FORM}, with file and purpose", "file")
    parts = list(form_parts(body, MAX_PARTS))
    file = next((part for part in reversed(parts) if part.name == "file"), None)
    if file is None:
        raise refused("the form has no whole part named file", "file")
    fields = {
        part.name: part.data[: 4 * MAX_LETTERS].decode("utf-8", "replace")[:MAX_LETTERS]
        for part in parts
        if part.name != "file"
    }
    return Upload(file.filename[:MAX_LETTERS], file.data, fields)
