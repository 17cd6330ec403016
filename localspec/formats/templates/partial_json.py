"""JSON that was cut off, read as far as it goes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from localspec.formats.templates.message import Json

RAW = "arguments"  # the name under which a text stands that is no object
CLOSERS = {"{": "}", "[": "]"}
STRING = r'"(?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*'
MARK = re.compile(rf'{STRING}(?P<end>"?)|[\[\]{{}},]', re.DOTALL)
HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}$")  # of a character beyond the first 65,536
SCALAR = r"\s*(?:-?[\d.eE+-]*|tr?u?|fa?l?s?|nu?l?)\s*"
# What may follow the last comma or opening bracket, by what would close the value.
TAILS = {
    "}": re.compile(rf'\s*(?:{STRING}(?:"\s*(?::{SCALAR})?)?)?\\?$', re.DOTALL),
    "]": re.compile(rf"{SCALAR}$"),
}


def read_partial(text: str) -> Json:
    """Read a value, or as much as there is of one that was cut off.

    A string may end anywhere; any other half value is left out, and so is its key. What follows a
    complete value is ignored. Text that is no JSON raises a ValueError.
    """
    for candidate in _completions(text.lstrip()):
        try:
            value: Json
            value, _ = json.JSONDecoder().raw_decode(candidate)
            json.dumps(value, ensure_ascii=False).encode()  # which refuses half characters
        except (ValueError, RecursionError):
            continue
        return value
    raise ValueError("this is neither JSON nor the beginning of it")


def _completions(text: str) -> Iterator[str]:
    """Yield the text, the same with all closed that is open, and without the last half value."""
    yield text
    closers, tail, complete = "", 0, ""
    for mark in MARK.finditer(text):
        if mark["end"] == "":
            yield HALF_PAIR.sub("", text[: mark.end()]) + '"' + closers
            break
        if mark[0] in CLOSERS:
            closers = CLOSERS[mark[0]] + closers
            tail, complete = mark.end(), text[: mark.end()] + closers
        elif mark[0] == ",":
            tail, complete = mark.end(), text[: mark.start()] + closers
        elif mark[0] in ("}", "]"):
            closers = closers[1:]
    else:
        yield text + closers
    if closers and TAILS[closers[0]].match(text, tail):
        yield complete


def read_object(text: str) -> Mapping[str, Json]:
    """Read an object, or as much as there is of one that was cut off."""
    try:
        partial = read_partial(text.encode("utf-8", "replace").decode())  # no half characters
    except ValueError:
        return {RAW: text}
    return partial if isinstance(partial, dict) else {RAW: text}
