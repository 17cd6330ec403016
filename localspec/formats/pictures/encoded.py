"""Files in base64, or as data URLs."""

from __future__ import annotations

import re
from base64 import b64decode
from urllib.parse import unquote_to_bytes

DATA = re.compile(r"data:(?P<kind>[^,;]*)(?P<more>[^,]*),", re.IGNORECASE)


def file_bytes(data: str) -> bytes:
    """Decode base64 or a data URL; raise a `ValueError` if it is neither."""
    header = DATA.match(data)
    body = data[header.end() :] if header else data
    if header and not header["more"].lower().endswith(";base64"):
        return unquote_to_bytes(body)
    letters = "".join(body.split()).rstrip("=").replace("-", "+").replace("_", "/")
    return b64decode(letters + "=" * (-len(letters) % 4), validate=True)
