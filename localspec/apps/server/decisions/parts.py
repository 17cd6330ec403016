"""A body in parts, as TypeSafe's client sends pictures: a request, and the files that it names."""

from __future__ import annotations

import json
from base64 import b64encode

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.form import form_parts
from localspec.apps.server.requests.reading import parse_json

REQUEST = "request"  # the part that is JSON
MAX_PARTS = 200  # with what is before the first and behind the last


def as_one_object(body: bytes) -> bytes:
    """Join a request with its files, in base64."""
    parts = {part.name: part.data for part in form_parts(body, MAX_PARTS)}
    if REQUEST not in parts:
        raise refused(f"{REQUEST}: the body has no part of this name", REQUEST)
    value = parse_json(parts[REQUEST])
    assets = value.get("assets") if isinstance(value, dict) else None
    for name, asset in assets.items() if isinstance(assets, dict) else ():
        if isinstance(asset, dict) and isinstance(part := asset.get("part"), str):
            if part not in parts:
                field = f"assets.{name}.part"
                raise refused(f"{field}: the body has no part {part[:60]!r}", field)
            asset["data_base64"] = b64encode(parts[part]).decode()
    return json.dumps(value).encode()
