"""Changes one value of a JSON file that people edit, and leaves comments and layout alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from localspec.errors import UsageError
from localspec.templates.message import Json

DECODER = json.JSONDecoder()
TEXT = r'"(?:\\.|[^"\\])*"'
COMMENT = re.compile(rf"({TEXT})|//[^\n]*|/\*.*?\*/", re.S)
TRAILING = re.compile(rf"({TEXT})|,(?=\s*[}}\]])", re.S)
SPACE = re.compile(r"\s*")


class Element(NamedTuple):
    """The element of a list by one of its fields."""

    field: str
    value: str


class Member(NamedTuple):
    """A value within an object or a list, and where it stands."""

    name: str | None
    value: Json
    start: int
    end: int


Step = str | Element


def put(text: str, path: Sequence[Step], value: Json) -> str:
    """Set the value at a path, with what is missing on the way."""
    plain = without_comments(text)
    if not plain.strip():
        text = f"{text.rstrip()}\n{'{}' if isinstance(path[0], str) else '[]'}\n".lstrip()
        plain = without_comments(text)
    start = after_space(plain, 0)
    try:
        _, end = DECODER.raw_decode(plain, start)
        if plain[end:].strip():
            raise ValueError(f"there is more after what ends in character {end}")
        return _put(text, plain, start, path, value)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not JSON, with or without comments: {error}") from error


def without_comments(text: str) -> str:
    """Write spaces in place of comments and last commas, so that every place stays where it is."""

    def blank(found: re.Match[str]) -> str:
        return found[1] or re.sub(r"[^\n]", " ", found[0])

    return TRAILING.sub(blank, COMMENT.sub(blank, text))


def _put(text: str, plain: str, start: int, path: Sequence[Step], value: Json) -> str:
    step, rest = path[0], path[1:]
    if plain[start] != ("{" if isinstance(step, str) else "["):
        raise UsageError(f"there is no place for {step!r}: another kind of value is in its place")
    members = list(members_of(plain, start))
    found = [each for each in members if is_at(each, step)]
    if not found:
        return _insert(text, plain, start, members, (step, _nested(rest, value)))
    last = found[-1]  # which counts, where there are several
    if rest:
        return _put(text, plain, last.start, rest, value)
    if last.value == value:
        return text
    return text[: last.start] + written(value, margin(text, last.start)) + text[last.end :]


def _insert(
    text: str, plain: str, start: int, members: Sequence[Member], new: tuple[Step, Json]
) -> str:
    """Add a member after the last one."""
    step, value = new
    name = f"{json.dumps(step)}: " if isinstance(step, str) else ""
    if members:
        at = members[-1].end
        indent = margin(text, members[-1].start)
        end = text.find("\n", at)
        if end < 0 or "," in text[at:end] or plain[at:end].strip():
            end = at
        # A comment behind the last member stays with it.
        return f"{text[:at]},{text[at:end]}\n{indent}{name}{written(value, indent)}{text[end:]}"
    outer = margin(text, start)
    indent = f"{outer}  "
    end = after_space(plain, start + 1)
    kept = text[start + 1 : end].rstrip()  # comments
    new_text = f"{kept}\n{indent}{name}{written(value, indent)}\n{outer}"
    return text[: start + 1] + new_text + text[end:]


def _nested(path: Sequence[Step], value: Json) -> Json:
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def members_of(plain: str, start: int) -> Iterator[Member]:
    at = after_space(plain, start + 1)
    while plain[at] not in "}]":
        name = None
        if plain[start] == "{":
            name, at = DECODER.raw_decode(plain, at)
            at = after_space(plain, after_space(plain, at) + 1)  # behind the colon
        value, end = DECODER.raw_decode(plain, at)
        yield Member(name, value, at, end)
        at = after_space(plain, end)
        at = after_space(plain, at + 1) if plain[at] == "," else at


def is_at(member: Member, step: Step) -> bool:
    if isinstance(step, str):
        return member.name == step
    return isinstance(member.value, dict) and member.value.get(step.field) == step.value


def after_space(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    assert found is not None
    return found.end()


def margin(text: str, at: int) -> str:
    """The space that the line of a place begins with."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def written(value: Json, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
