"""Arguments of earlier calls, in a form that a template reads; some come back cut off."""

from __future__ import annotations

import json
from collections.abc import Mapping

from localspec.templates.capabilities import Takes
from localspec.templates.message import Json
from localspec.templates.partial_json import read_partial

RAW = "arguments"  # the name under which a text stands that is no object


def readable(arguments: Json, takes: Takes) -> Json:
    """Return arguments as an object or a text, whichever the template reads."""
    if isinstance(arguments, Mapping):
        return arguments if takes.objects else json.dumps(arguments, ensure_ascii=False)
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if arguments is None or not text.strip():
        text = "{}"
    return text if takes.written else read(text)


def read(text: str) -> Mapping[str, Json]:
    """Read an object, or as much as there is of one that was cut off."""
    try:
        partial = read_partial(text.encode("utf-8", "replace").decode())  # no half characters
    except ValueError:
        return {RAW: text}
    return partial if isinstance(partial, dict) else {RAW: text}
