"""Values that are JSON but for its quotes and words, read where the quotes are a family's own."""

from __future__ import annotations

import json
import re

from localspec.formats.dialects.scanner import MAX_DEPTH, as_json
from localspec.formats.dialects.text_stream import Reading, TextStream

KEY = re.compile(r"[^\s,:{}\[\]<>]+")
WORD = re.compile(r"[^,{}\[\]<>\n]+")

Quotes = tuple[str, str]


def read_value(stream: TextStream, quotes: Quotes, depth: int = 0) -> Reading[str | None]:
    """Read one value; return it as JSON, or nothing where there is none."""
    containers = ("{", "[") if depth < MAX_DEPTH else ()
    opening = yield from stream.starts(quotes[0], *containers)
    if opening == quotes[0]:
        return (yield from _string(stream, quotes))
    if opening == "{":
        return (yield from _members(stream, quotes, depth, "}"))
    if opening == "[":
        return (yield from _members(stream, quotes, depth, "]"))
    word = (yield from stream.run(WORD)).strip()
    return (as_json(word) or json.dumps(word, ensure_ascii=False)) if word else None


def _string(stream: TextStream, quotes: Quotes) -> Reading[str | None]:
    text_pieces: list[str] = []
    if not (yield from stream.until((quotes[1],), text_pieces.append)):
        return None
    return json.dumps("".join(text_pieces), ensure_ascii=False)


def _members(stream: TextStream, quotes: Quotes, depth: int, end: str) -> Reading[str | None]:
    """Read what an object or a list has, and its end."""
    members: list[str] = []
    yield from stream.blank()
    while not (yield from stream.starts(end)):
        if members and not (yield from stream.starts(",")):
            return None
        yield from stream.blank()
        key = (yield from _key(stream, quotes)) if end == "}" else ""
        value = (yield from read_value(stream, quotes, depth + 1)) if key is not None else None
        if value is None:
            return None
        members.append(f"{key}: {value}" if key else value)
        yield from stream.blank()
    inner = ", ".join(members)
    return f"{{{inner}}}" if end == "}" else f"[{inner}]"


def _key(stream: TextStream, quotes: Quotes) -> Reading[str | None]:
    if (yield from stream.starts(quotes[0])):
        key = yield from _string(stream, quotes)
    else:
        word = yield from stream.run(KEY)
        key = json.dumps(word.strip('"'), ensure_ascii=False) if word else None
    yield from stream.blank()
    if key is None or not (yield from stream.starts(":")):
        return None
    yield from stream.blank()
    return key
