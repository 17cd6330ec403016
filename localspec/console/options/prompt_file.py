"""Prompts of the user's own: a JSONL file, each line with "prompt" or "messages".

The requests of a batch are such prompts, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from localspec.base.errors import UsageError
from localspec.formats.templates.message import Json, Message

REQUESTS = "requests"  # the category of requests of a batch


class Line(NamedTuple):
    """A JSON object of a file, with its place for errors."""

    location: str
    fields: Mapping[str, Json]


def read(path: Path) -> list[Line]:
    """Read the objects of a file; a line that is none is a UsageError with its number."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"prompts cannot be read from {path}: {error}") from error
    numbered = ((f"{path}, line {at}", line) for at, line in enumerate(lines, 1) if line.strip())
    objects = [Line(location, _object(location, line)) for location, line in numbered]
    if not objects:
        raise UsageError(f"{path} has no prompts; give one JSON object a line")
    return objects


def _object(location: str, line: str) -> Mapping[str, Json]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{location}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f'{location}: not an object like {{"prompt": ...}}')
    body = value.get("body")
    return _of_request(body) if isinstance(body, dict) else value


def _of_request(body: Mapping[str, Json]) -> Mapping[str, Json]:
    """Take the prompt of a request, and what its reply is expected to repeat."""
    fields = {name: body[name] for name in ("prompt", "messages") if name in body}
    prediction = body.get("prediction")
    expected = prediction.get("content") if isinstance(prediction, dict) else None
    return {
        "category": REQUESTS,
        **fields,
        **({"prediction": expected} if isinstance(expected, str) else {}),
    }


def messages(line: Line) -> list[Message]:
    """Return the conversation of a line."""
    location, fields = line
    if ("prompt" in fields) == ("messages" in fields):
        raise UsageError(f"{location}: give either a prompt or messages")
    if "prompt" in fields:
        prompt = fields["prompt"]
        if not isinstance(prompt, str) or not prompt:
            raise UsageError(f"{location}: prompt is not a text")
        return [{"role": "user", "content": prompt}]
    turns = fields["messages"]
    if not isinstance(turns, list) or not turns or not all(map(_is_message, turns)):
        raise UsageError(f"{location}: messages are a list of objects with role and content")
    return [dict(message) for message in turns if isinstance(message, dict)]


def _is_message(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and {"role", "content"} <= value.keys()
        and all(isinstance(text, str) for text in value.values())
    )
