"""Validators that the APIs of items and of blocks share."""

from __future__ import annotations

import json
import re

from pydantic import BaseModel, BeforeValidator, Discriminator
from pydantic_core import PydanticCustomError

from localspec.server.requests.json_size import check_size

OTHER = "other"  # the tag of objects that are left out
UNREAD = ("image", "audio", "video", "file", "media")  # in the types of what is not text
HALF = re.compile("[\ud800-\udfff]")  # of a character


def default_type(first: str) -> BeforeValidator:
    """Give an object without a type the first one."""

    def check(value: object) -> object:
        absent = isinstance(value, dict) and value.get("type") is None
        return {**value, "type": first} if absent and isinstance(value, dict) else value

    return BeforeValidator(check)


def readable(*types: str) -> BeforeValidator:
    """Refuse videos and other parts that are no text, except those of these types."""

    def check(part: object) -> object:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind not in types and any(word in kind for word in UNREAD):
            message = "a part of type {kind} cannot be read here: leave it out"
            raise PydanticCustomError("unread", message, {"kind": repr(kind)[:80]})
        return part

    return BeforeValidator(check)


def by_type(*types: str) -> Discriminator:
    """Discriminate a union by the types of its members; an object of any other type is `OTHER`."""

    def tag(value: object) -> str:
        kind = dict(value).get("type") if isinstance(value, dict | BaseModel) else types[0]
        return kind if isinstance(kind, str) and kind in types else OTHER

    return Discriminator(tag)


def as_texts(value: object) -> object:
    """Read parts: a text, or a list with texts; other data becomes JSON."""
    listed = value if isinstance(value, list) else [value]
    return [as_part(part) for part in listed if part is not None]


def as_part(value: object) -> object:
    if isinstance(value, dict) and not {"type", "text"} & value.keys():
        return {"type": "text", "text": json.dumps(value)}
    if isinstance(value, str | int | float):
        return {"type": "text", "text": str(value)}
    return value


def as_listed(value: object) -> object:
    """Read a word as a list of one."""
    return [value] if isinstance(value, str) else value


def as_strings(value: object) -> object:
    """Read one string or several, without those in no reply: empty ones, half characters."""
    listed = value if isinstance(value, list) else [value]
    strings = [str(text) if isinstance(text, int | float) else text for text in listed]
    return [text for text in strings if text not in ("", None, {}) and has_whole_characters(text)]


def has_whole_characters(value: object) -> bool:
    """Return whether a text has only whole characters, as replies have."""
    return not isinstance(value, str) or value.isascii() or not HALF.search(value)


def as_type(value: object) -> object:
    """Read a word as an object of that type, a switch as one that is enabled or disabled."""
    if isinstance(value, bool):
        return {"type": "enabled" if value else "disabled"}
    return {"type": value} if isinstance(value, str) else value


def as_object(value: object) -> object:
    """Read an object that may be a text, or an empty list, as PHP writes it."""
    if value == []:
        return {}
    if not isinstance(value, str):
        return value
    check_size(value)
    try:
        return json.loads(value or "{}")
    except (ValueError, RecursionError):
        return value
