"""Values that are JSON but for its quotes and words, read where the quotes are a family's own."""

from __future__ import annotations

import json
import re

from localspec.formats.dialects.scanner import MAX_DEPTH, as_json
from localspec.formats.dialects.tape import Reading, Tape

KEY = re.compile(r"[^\s,:{}\[\]<>]+")
WORD = re.compile(r"[^,{}\[\]<>\n]+")

Quotes = tuple[str, str]


def read_value(tape: Tape, quotes: Quotes, depth: int = 0) -> Reading[str | None]:
    """Read one value; return it as JSON, or nothing where there is none."""
    containers = ("{", "[") if depth < MAX_DEPTH else ()
    opening = yield from tape.starts(quotes[0], *containers)
    if opening == quotes[0]:
        return (yield from _string(tape, quotes))
    if opening == "{":
        return (yield from _members(tape, quotes, depth, "}"))
    if opening == "[":
        return (yield from _members(tape, quotes, depth, "]"))
    word = (yield from tape.run(WORD)).strip()
    return (as_json(word) or json.dumps(word, ensure_ascii=False)) if word else None


def _string(tape: Tape, quotes: Quotes) -> Reading[str | None]:
    text_pieces: list[str] = []
    if not (yield from tape.until((quotes[1],), text_pieces.append)):
        return None
    return json.dumps("".join(text_pieces), ensure_ascii=False)


def _members(tape: Tape, quotes: Quotes, depth: int, end: str) -> Reading[str | None]:
    """Read what an object or a list has, and its end."""
    members: list[str] = []
    yield from tape.blank()
    while not (yield from tape.starts(end)):
        if members and not (yield from tape.starts(",")):
            return None
        yield from tape.blank()
        key = (yield from _key(tape, quotes)) if end == "}" else ""
        value = (yield from read_value(tape, quotes, depth + 1)) if key is not None else None
        if value is None:
            return None
        members.append(f"{key}: {value}" if key else value)
        yield from tape.blank()
    inner = ", ".join(members)
    return f"{{{inner}}}" if end == "}" else f"[{inner}]"


def _key(tape: Tape, quotes: Quotes) -> Reading[str | None]:
    if (yield from tape.starts(quotes[0])):
        key = yield from _string(tape, quotes)
    else:
        word = yield from tape.run(KEY)
        key = json.dumps(word.strip('"'), ensure_ascii=False) if word else None
    yield from tape.blank()
    if key is None or not (yield from tape.starts(":")):
        return None
    yield from tape.blank()
    return key
