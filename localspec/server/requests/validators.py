"""Validators that the APIs of items and of blocks share."""

from __future__ import annotations

import json

from pydantic import BaseModel, BeforeValidator, Discriminator
from pydantic_core import PydanticCustomError

from localspec.server.requests.json_size import check_size

OTHER = "other"  # the tag of objects that are left out
UNREAD = ("image", "audio", "video", "file", "media")  # in the types of what is not text
READ = ("file", "input_file")  # whose data tells whether it is text


def typed(first: str) -> BeforeValidator:
    """Take a type that is missing as the first."""

    def check(value: object) -> object:
        absent = isinstance(value, dict) and value.get("type") is None
        return {**value, "type": first} if absent and isinstance(value, dict) else value

    return BeforeValidator(check)


def readable(part: object) -> object:
    """Refuse parts that would have to be seen or heard."""
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(kind, str) and kind not in READ and any(word in kind for word in UNREAD):
        raise unread(kind)
    return part


def unread(kind: str) -> PydanticCustomError:
    message = "a part of type {kind} cannot be read: models here read text only; leave it out"
    return PydanticCustomError("unread", message, {"kind": repr(kind)[:80]})


def tagged(*types: str) -> Discriminator:
    """Tell the members of a union by their types; an object of any other type is `OTHER`."""

    def tag(value: object) -> str:
        kind = dict(value).get("type") if isinstance(value, dict | BaseModel) else types[0]
        return kind if isinstance(kind, str) and kind in types else OTHER

    return Discriminator(tag)


def as_texts(value: object) -> object:
    """A text is short for a list of one, and so is a text in a list; data is told as JSON."""
    listed = value if isinstance(value, list) else [value]
    return [as_part(part) for part in listed if part is not None]


def as_part(value: object) -> object:
    if isinstance(value, dict) and not {"type", "text"} & value.keys():
        return {"type": "text", "text": json.dumps(value)}
    if isinstance(value, str | int | float):
        return {"type": "text", "text": str(value)}
    return value


def as_listed(value: object) -> object:
    """A word is short for a list of one."""
    return [value] if isinstance(value, str) else value


def as_type(value: object) -> object:
    """A word is short for an object of that type; a switch for one that is enabled or not."""
    if isinstance(value, bool):
        return {"type": "enabled" if value else "disabled"}
    return {"type": value} if isinstance(value, str) else value


def as_object(value: object) -> object:
    """Arguments that other APIs write as a text, and PHP as a list if there are none."""
    if value == []:
        return {}
    if not isinstance(value, str):
        return value
    check_size(value)
    try:
        return json.loads(value or "{}")
    except (ValueError, RecursionError):
        return value
