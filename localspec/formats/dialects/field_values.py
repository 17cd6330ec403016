"""Arguments that are written one by one, read as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from localspec.formats.dialects.elements import element
from localspec.formats.dialects.layout import Fields, Middle
from localspec.formats.dialects.literal import read_pieces
from localspec.formats.dialects.notation import read_value
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.scanner import Scanner, as_json
from localspec.formats.dialects.segments import pieces
from localspec.formats.dialects.text_stream import Reading, TextStream
from localspec.formats.dialects.values import kinds, value
from localspec.formats.templates.message import Json

CLOSED = ("'", '"', "{", "[")  # letters that begin a value with an end of its own


class Argument(NamedTuple):
    """An argument whose value comes next."""

    key: str
    middle: Middle
    schema: Mapping[str, Json]


def read_arguments(
    stream: TextStream, fields: Fields, ends: Sequence[str], tool: OfferedTool | None
) -> Reading[str | None]:
    """Read arguments one by one; return them as a JSON object, or None where they break off.

    `stream` stands after the name of a call. `ends[0]` ends all arguments. The others end a value
    that has no end of its own (`Fields.raw`): what follows its call, and that call's end with it.
    """
    end, *call_ends = ends
    values: dict[str, str] = {}
    while True:
        yield from stream.blank()
        if (yield from stream.starts(end)):
            return _as_object(values)
        if values and not (yield from _between(stream, fields, end)):
            return None
        argument = yield from _argument(stream, fields, tool)
        if argument is None:
            return None
        missing = [name for name in tool.properties if name not in values] if tool else []
        others = call_ends if fields.raw else [fields.between.strip(), end]
        text = yield from _read_value(
            stream, fields, argument, [*_following(fields, missing), *others]
        )
        if text is None:
            return None
        values[argument.key] = text


def _as_object(values: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(key)}: {text}" for key, text in values.items()) + "}"


def _between(stream: TextStream, fields: Fields, end: str) -> Reading[bool]:
    """Read what stands between two arguments; return whether another argument may follow."""
    if not fields.between.strip():
        return True
    yield from stream.starts(fields.between.strip())
    yield from stream.blank()
    return not (yield from stream.starts(end))


def _argument(
    stream: TextStream, fields: Fields, tool: OfferedTool | None
) -> Reading[Argument | None]:
    """Read a key, and what stands before its value."""
    if not (yield from read_pieces(stream, fields.key)):
        return None
    yield from stream.blank()
    key = yield from stream.run(_key(fields))
    middle = (yield from _middle(stream, fields)) if key else None
    return Argument(key, middle, tool.parameter(key) if tool else {}) if middle else None


def _read_value(
    stream: TextStream, fields: Fields, argument: Argument, stops: Sequence[str]
) -> Reading[str | None]:
    """Read one value in the way that its fields have; return it as JSON.

    `stops` end a value that has no end of its own: the next key, or the end of the call.
    """
    if fields.raw:  # a text of any characters, up to a stop
        return (yield from _raw(stream, fields, stops, argument.schema))
    if fields.joined and (yield from stream.ahead()) not in CLOSED:  # a word, up to a stop
        return (yield from _word(stream, stops, argument.schema))
    if fields.item is None:  # a text up to a mark, or a value that shows its end
        return (yield from _value(stream, fields.for_key(argument.key), argument))
    text = yield from element(stream, fields, argument.key, argument.schema)
    for piece in pieces(fields.shared):
        yield from stream.starts(piece)
    return text


def _key(fields: Fields) -> re.Pattern[str]:
    """Return a pattern for a key, without the first character of what follows keys."""
    first = fields.middles[0].text.strip()[:1]
    return re.compile(rf"[^\s<>{{}}()\[\]{re.escape(first)}]+")


def _middle(stream: TextStream, fields: Fields) -> Reading[Middle | None]:
    """Read what stands between a key and its value; return which of the middles it was."""
    yield from stream.blank()
    texts = {middle.text.strip(): middle for middle in fields.middles}
    if len(texts) > 1:
        return texts.get((yield from stream.starts(*texts)))
    whole = yield from read_pieces(stream, fields.middles[0].text)
    return fields.middles[0] if whole else None


def _following(fields: Fields, keys: Sequence[str]) -> list[str]:
    """List what ends a value of `raw` or `joined` fields because one of these keys follows."""
    if not (fields.raw or fields.joined):
        return []
    between = dict.fromkeys((fields.between, fields.between.strip(), *[""] * fields.joined))
    middle = fields.middles[0].text
    return [f"{comma}{fields.key}{key}{middle}" for comma in between for key in keys]


def _raw(
    stream: TextStream, fields: Fields, ends: Sequence[str], schema: Mapping[str, Json]
) -> Reading[str | None]:
    """Read a value as it stands, without the quotes around it."""
    quote = (yield from stream.starts("'", '"')) if fields.quotes else ""
    pieces: list[str] = []
    end = yield from stream.until([quote + end for end in ends], pieces.append)
    if not end:
        return None
    stream.back(end)
    yield from stream.starts(quote or "\0")
    return value(unquoted("".join((quote, *pieces, quote))), schema)


def unquoted(text: str) -> str:
    """Return a text without its quotes; its escapes count only if it escapes a quote."""
    quote = text[:1]
    if len(text) < 2 or quote != text[-1] or quote not in "'\"":
        return text
    unescaped = as_json(text) if f"\\{quote}" in text else None
    return str(json.loads(unescaped)) if unescaped else text[1:-1]


def _word(
    stream: TextStream, ends: Sequence[str], schema: Mapping[str, Json]
) -> Reading[str | None]:
    """Read a number or another word, which may touch what follows it."""
    pieces: list[str] = []
    end = yield from stream.until(ends, pieces.append)
    stream.back(end)
    return value("".join(pieces).strip(), schema) if end else None


def _value(stream: TextStream, fields: Fields, argument: Argument) -> Reading[str | None]:
    """Read a value as JSON, and its closing marks, which may be missing; None if it breaks off."""
    if fields.quotes is None:
        return (yield from _text(stream, fields, argument))
    yield from stream.blank()
    text = yield from _quoted(stream, fields, argument.schema)
    for piece in pieces(fields.end):
        yield from stream.blank()
        yield from stream.starts(piece)
    return text


def _quoted(stream: TextStream, fields: Fields, schema: Mapping[str, Json]) -> Reading[str | None]:
    """Read a value whose strings have quotes."""
    if fields.own and fields.quotes:
        text = yield from read_value(stream, fields.quotes)
        bare = text is not None and text[0] not in '"{['
        return json.dumps(text) if bare and kinds(schema) == frozenset({"string"}) else text
    json_pieces: list[str] = []
    whole = yield from stream.value(Scanner(), json_pieces.append)
    text = "".join(json_pieces)
    if whole and text[0] == '"' and "string" not in (kinds(schema) or ("string",)):
        return value(json.loads(text), schema)  # some templates quote values of all kinds
    return text if whole else None


def _text(stream: TextStream, fields: Fields, argument: Argument) -> Reading[str | None]:
    """Read a value that stands as it is between marks."""
    closing, *more = pieces(fields.end)
    text_pieces: list[str] = []
    if not (yield from stream.until((closing,), text_pieces.append)):
        return None
    for piece in more:
        yield from stream.blank()
        yield from stream.starts(piece)
    before, after = argument.middle.text, fields.end
    text = "".join(text_pieces).removeprefix(before[len(before.rstrip()) :])
    text = text.removesuffix(after[: len(after) - len(after.lstrip())])
    opening, ending = fields.wrapping or ("", "")
    if opening and text.startswith(opening) and text.endswith(ending):
        return json.dumps(text[len(opening) : -len(ending)], ensure_ascii=False)
    if argument.middle.kinds == {"string"}:
        return json.dumps(text, ensure_ascii=False)
    return value(text, argument.schema)
