"""Sets one entry of a list in a YAML file, and leaves comments and layout alone."""

from __future__ import annotations

import re
from collections.abc import Mapping

import yaml

from localspec.errors import UsageError

Entry = Mapping[str, str | int | list[str]]


def put(text: str, key: str, entry: Entry) -> str:
    """Set the entry of a top-level list that has this name, or add it as the first."""
    listed = entries(text, key)
    if entry in listed:
        return text
    lines = text.splitlines(keepends=True)
    heading = next(
        (at for at, line in enumerate(lines) if re.match(rf"{key}:\s*(#.*)?$", line)), -1
    )
    if heading < 0:
        raise UsageError(f"there is no list {key!r} in it that is written one entry a line")
    begin, end, indent = place_of(lines, heading, str(entry["name"]))
    found = "".join([*lines[:begin], *written(entry, indent), *lines[end:]])
    others = [each for each in listed if each.get("name") != entry["name"]]
    now = entries(found, key)
    if entry not in now or [each for each in now if each != entry] != others:
        raise UsageError("it is written in a way that cannot be changed safely")
    return found


def entries(text: str, key: str) -> list[dict[str, object]]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"it is not YAML: {error}") from error
    if not isinstance(found, dict) or key not in found:
        raise UsageError(f"there is no list {key!r} in it")
    listed = found[key] or []
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise UsageError(f"there is no list {key!r} in it")
    return listed


def place_of(lines: list[str], heading: int, name: str) -> tuple[int, int, str]:
    """Find the lines of the entry with a name, or where a first one goes, and the indentation."""
    first = next((line for line in lines[heading + 1 :] if re.match(r"\s*- ", line)), "  - ")
    indent = first[: first.index("-")]
    named = re.compile(rf"{indent}- name: [\"']?{re.escape(name)}[\"']?\s*$")
    begin = next((at for at, line in enumerate(lines) if named.match(line)), None)
    if begin is None:
        return heading + 1, heading + 1, indent
    end = begin + 1
    while end < len(lines) and lines[end].startswith(f"{indent}  "):
        end += 1
    return begin, end, indent


def written(entry: Entry, indent: str) -> list[str]:
    text = yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True)
    return [f"{indent}{line}\n" for line in text.splitlines()]
