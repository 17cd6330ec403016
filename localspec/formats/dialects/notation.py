"""Values that are JSON but for its quotes and words, read where the quotes are a family's own."""

from __future__ import annotations

import json
import re

from localspec.formats.dialects.incoming_text import IncomingText, Reading
from localspec.formats.dialects.scanner import MAX_DEPTH, as_json

KEY = re.compile(r"[^\s,:{}\[\]<>]+")
WORD = re.compile(r"[^,{}\[\]<>\n]+")

Quotes = tuple[str, str]


def read_value(incoming: IncomingText, quotes: Quotes, depth: int = 0) -> Reading[str | None]:
    """Read one value; return it as JSON, or nothing where there is none."""
    containers = ("{", "[") if depth < MAX_DEPTH else ()
    opening = yield from incoming.starts(quotes[0], *containers)
    if opening == quotes[0]:
        return (yield from _string(incoming, quotes))
    if opening == "{":
        return (yield from _members(incoming, quotes, depth, "}"))
    if opening == "[":
        return (yield from _members(incoming, quotes, depth, "]"))
    word = (yield from incoming.run(WORD)).strip()
    return (as_json(word) or json.dumps(word, ensure_ascii=False)) if word else None


def _string(incoming: IncomingText, quotes: Quotes) -> Reading[str | None]:
    text_pieces: list[str] = []
    if not (yield from incoming.until((quotes[1],), text_pieces.append)):
        return None
    return json.dumps("".join(text_pieces), ensure_ascii=False)


def _members(incoming: IncomingText, quotes: Quotes, depth: int, end: str) -> Reading[str | None]:
    """Read what an object or a list has, and its end."""
    members: list[str] = []
    yield from incoming.blank()
    while not (yield from incoming.starts(end)):
        if members and not (yield from incoming.starts(",")):
            return None
        yield from incoming.blank()
        key = (yield from _key(incoming, quotes)) if end == "}" else ""
        value = (yield from read_value(incoming, quotes, depth + 1)) if key is not None else None
        if value is None:
            return None
        members.append(f"{key}: {value}" if key else value)
        yield from incoming.blank()
    inner = ", ".join(members)
    return f"{{{inner}}}" if end == "}" else f"[{inner}]"


def _key(incoming: IncomingText, quotes: Quotes) -> Reading[str | None]:
    if (yield from incoming.starts(quotes[0])):
        key = yield from _string(incoming, quotes)
    else:
        word = yield from incoming.run(KEY)
        key = json.dumps(word.strip('"'), ensure_ascii=False) if word else None
    yield from incoming.blank()
    if key is None or not (yield from incoming.starts(":")):
        return None
    yield from incoming.blank()
    return key
