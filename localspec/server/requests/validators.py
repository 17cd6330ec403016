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

    def check(given: object) -> object:
        absent = isinstance(given, dict) and given.get("type") is None
        return {**given, "type": first} if absent and isinstance(given, dict) else given

    return BeforeValidator(check)


def readable(given: object) -> object:
    """Refuse parts that would have to be seen or heard."""
    kind = given.get("type") if isinstance(given, dict) else None
    if isinstance(kind, str) and kind not in READ and any(each in kind for each in UNREAD):
        raise unread(kind)
    return given


def unread(kind: str) -> PydanticCustomError:
    message = "a part of type {kind} cannot be read: models here read text only; leave it out"
    return PydanticCustomError("unread", message, {"kind": repr(kind)[:80]})


def tagged(*known: str) -> Discriminator:
    """Tell the members of a union by their types; an object of any other type is `OTHER`."""

    def tag(given: object) -> str:
        kind = dict(given).get("type") if isinstance(given, dict | BaseModel) else known[0]
        return kind if isinstance(kind, str) and kind in known else OTHER

    return Discriminator(tag)


def as_texts(given: object) -> object:
    """A text is short for a list of one, and so is a text in a list; data is told as JSON."""
    listed = given if isinstance(given, list) else [given]
    return [as_part(each) for each in listed if each is not None]


def as_part(given: object) -> object:
    if isinstance(given, dict) and not {"type", "text"} & given.keys():
        return {"type": "text", "text": json.dumps(given)}
    if isinstance(given, str | int | float):
        return {"type": "text", "text": str(given)}
    return given


def as_listed(given: object) -> object:
    """A word is short for a list of one."""
    return [given] if isinstance(given, str) else given


def as_type(given: object) -> object:
    """A word is short for an object of that type; a switch for one that is enabled or not."""
    if isinstance(given, bool):
        return {"type": "enabled" if given else "disabled"}
    return {"type": given} if isinstance(given, str) else given


def as_object(given: object) -> object:
    """Arguments that other APIs write as a text, and PHP as a list if there are none."""
    if given == []:
        return {}
    if not isinstance(given, str):
        return given
    check_size(given)
    try:
        return json.loads(given or "{}")
    except (ValueError, RecursionError):
        return given
