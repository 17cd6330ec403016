"""What the APIs of items and of blocks have in common in what they are given."""

from __future__ import annotations

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError


def only(what: str, *kinds: str) -> BeforeValidator:
    """Refuse any other type by its name; the first is meant where there is none."""

    def check(given: object) -> object:
        if not isinstance(given, dict):
            return given
        kind = given.get("type")
        if kind is None:
            return given | {"type": kinds[0]}
        if kind not in kinds:
            message = "there is no {what} of type {kind} here, only {kinds}"
            told = {"what": what, "kind": repr(kind)[:80], "kinds": ", ".join(kinds)}
            raise PydanticCustomError("unknown_kind", message, told)
        return given

    return BeforeValidator(check)


def as_texts(given: object) -> object:
    """A text is short for a list of one."""
    return [{"type": "text", "text": given}] if isinstance(given, str) else given
