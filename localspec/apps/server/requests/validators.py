"""Validators that the APIs of items and of blocks share."""

from __future__ import annotations

import json
import re
from typing import get_args

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from localspec.apps.server.requests.json_size import check_size

OTHER = "other"  # the tag of objects that are left out
UNREAD = ("image", "audio", "video", "file", "media")  # in the types of what is not text
HALF = re.compile("[\ud800-\udfff]")  # of a character


class ByType:
    """Chooses the member of a union by the type of an object: its members' literals name it.

    default: the type of an object without one
    refuses: whether types that name a medium are refused; other types are left out
    """

    def __init__(self, default: str = "", *, refuses: bool = False) -> None:
        self._default, self._refuses = default, refuses

    def __get_pydantic_core_schema__(
        self, union: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        choices: dict[str, CoreSchema] = {}
        for member in get_args(union):
            types = get_args(member.model_fields["type"].annotation) or (OTHER,)
            choices |= dict.fromkeys(types, handler.generate_schema(member))
        first = next(iter(choices))

        def tag(value: object) -> str:
            kind = dict(value).get("type") if isinstance(value, dict | BaseModel) else first
            return kind if isinstance(kind, str) and kind in choices else OTHER

        def typed(value: object) -> object:
            kind = value.get("type") if isinstance(value, dict) else OTHER
            if kind is None and isinstance(value, dict) and self._default:
                return {**value, "type": self._default}
            odd = isinstance(kind, str) and kind not in choices
            if self._refuses and odd and any(word in str(kind) for word in UNREAD):
                message = "a part of type {kind} cannot be read here: leave it out"
                raise PydanticCustomError("unread", message, {"kind": repr(kind)[:80]})
            return value

        union_schema = core_schema.tagged_union_schema(choices, tag)
        return core_schema.no_info_before_validator_function(typed, union_schema)


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
