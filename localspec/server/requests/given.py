"""Validators that the APIs of items and of blocks share."""

from __future__ import annotations

from pydantic import BaseModel, BeforeValidator, Discriminator
from pydantic_core import PydanticCustomError

OTHER = "other"  # the tag of objects that are left out
UNREAD = ("image", "audio", "video", "file", "media")  # in the types of what is not text


def typed(first: str) -> BeforeValidator:
    """Take a type that is missing as the first."""

    def check(given: object) -> object:
        absent = isinstance(given, dict) and given.get("type") is None
        return {**given, "type": first} if absent and isinstance(given, dict) else given

    return BeforeValidator(check)


def readable(given: object) -> object:
    """Refuse parts that would have to be seen or heard."""
    kind = given.get("type") if isinstance(given, dict) else None
    if isinstance(kind, str) and any(each in kind for each in UNREAD):
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
    """Read a text as short for a list of one."""
    parts = given if isinstance(given, list) else [given]
    if not all(isinstance(each, str | dict) for each in parts):
        return given
    return [{"type": "text", "text": each} if isinstance(each, str) else each for each in parts]
