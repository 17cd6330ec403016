"""Arguments that are written one by one: read as JSON, and written as a grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from localspec.dialects.elements import Elements, element
from localspec.dialects.lark import Lark, choice, json_value, matching, quoted, separated
from localspec.dialects.layout import Fields, Middle, ObjectStyle
from localspec.dialects.notation import read_value
from localspec.dialects.notation_grammar import Notation, is_plain
from localspec.dialects.offered_tools import OfferedTool
from localspec.dialects.scanner import Scanner, as_json
from localspec.dialects.segments import pieces
from localspec.dialects.tape import Reading, Tape
from localspec.dialects.values import kinds, strings, value
from localspec.templates.message import Json

CLOSED = ("'", '"', "{", "[")  # letters that begin a value with an end of its own


def read_arguments(
    tape: Tape, fields: Fields, ends: Sequence[str], tool: OfferedTool | None
) -> Reading[str | None]:
    """Arguments as JSON, or nothing where they are not written as they should be.

    The first of `ends` ends them all; the others end values that nothing else does.
    """
    end, *last = ends
    values: dict[str, str] = {}
    while True:
        yield from tape.blank()
        if (yield from tape.starts(end)):
            members = (f"{json.dumps(key)}: {value}" for key, value in values.items())
            return "{" + ", ".join(members) + "}"
        if values and fields.between.strip():
            yield from tape.starts(fields.between.strip())
            yield from tape.blank()
            if (yield from tape.starts(end)):
                return None
        for piece in pieces(fields.key):
            yield from tape.blank()
            if not (yield from tape.starts(piece)):
                return None
        yield from tape.blank()
        key = yield from tape.run(_key(fields))
        middle = (yield from _middle(tape, fields)) if key else None
        if middle is None:
            return None
        schema = tool.parameter(key) if tool else {}
        if fields.raw or fields.joined:
            left = [name for name in tool.properties if name not in values] if tool else []
            follows = _following(fields, left)
        if fields.raw:
            text = yield from _raw(tape, fields, [*follows, *last], schema)
        elif fields.joined and (yield from tape.ahead()) not in CLOSED:
            text = yield from _word(tape, [*follows, fields.between.strip(), end], schema)
        elif fields.item is None:
            text = yield from _value(tape, fields.of(key), middle, schema)
        else:
            text = yield from element(tape, fields, key, schema)
            for piece in pieces(fields.shared):
                yield from tape.starts(piece)
        if text is None:
            return None
        values[key] = text


def _key(fields: Fields) -> re.Pattern[str]:
    """Letters of a key: none of them begins what follows it."""
    first = fields.middles[0].text.strip()[:1]
    return re.compile(rf"[^\s<>{{}}()\[\]{re.escape(first)}]+")


def _middle(tape: Tape, fields: Fields) -> Reading[Middle | None]:
    yield from tape.blank()
    texts = {middle.text.strip(): middle for middle in fields.middles}
    if len(texts) > 1:
        return texts.get((yield from tape.starts(*texts)))
    for piece in pieces(fields.middles[0].text):
        yield from tape.blank()
        if not (yield from tape.starts(piece)):
            return None
    return fields.middles[0]


def _following(fields: Fields, keys: Sequence[str]) -> list[str]:
    """List what ends a value because another one of these keys begins."""
    between = dict.fromkeys((fields.between, fields.between.strip(), *[""] * fields.joined))
    middle = fields.middles[0].text
    return [f"{comma}{fields.key}{key}{middle}" for comma in between for key in keys]


def _raw(
    tape: Tape, fields: Fields, ends: Sequence[str], schema: Mapping[str, Json]
) -> Reading[str | None]:
    """A value as it stands, whatever quotes are in it; those around it are left out."""
    quote = (yield from tape.starts("'", '"')) if fields.quotes else ""
    pieces: list[str] = []
    end = yield from tape.until([quote + end for end in ends], pieces.append)
    if not end:
        return None
    tape.back(end)
    yield from tape.starts(quote or "\0")
    return value(unquoted("".join((quote, *pieces, quote))), schema)


def unquoted(text: str) -> str:
    """A text without its quotes; a backslash means something only where quotes have one."""
    quote = text[:1]
    if len(text) < 2 or quote != text[-1] or quote not in "'\"":
        return text
    unescaped = as_json(text) if f"\\{quote}" in text else None
    return str(json.loads(unescaped)) if unescaped else text[1:-1]


def _word(tape: Tape, ends: Sequence[str], schema: Mapping[str, Json]) -> Reading[str | None]:
    """A number or another word, which may touch what follows it."""
    pieces: list[str] = []
    end = yield from tape.until(ends, pieces.append)
    tape.back(end)
    return value("".join(pieces).strip(), schema) if end else None


def _value(
    tape: Tape, fields: Fields, middle: Middle, schema: Mapping[str, Json]
) -> Reading[str | None]:
    """One value as JSON, and what closes it."""
    if fields.quotes is None:
        return (yield from _text(tape, fields, middle, schema))
    yield from tape.blank()
    text = yield from _quoted(tape, fields, schema)
    for piece in pieces(fields.end):
        yield from tape.blank()
        yield from tape.starts(piece)
    return text


def _quoted(tape: Tape, fields: Fields, schema: Mapping[str, Json]) -> Reading[str | None]:
    """One value whose strings have quotes."""
    if fields.own and fields.quotes:
        text = yield from read_value(tape, fields.quotes)
        bare = text is not None and text[0] not in '"{['
        return json.dumps(text) if bare and kinds(schema) == frozenset({"string"}) else text
    json_pieces: list[str] = []
    whole = yield from tape.value(Scanner(), json_pieces.append)
    text = "".join(json_pieces)
    if whole and text[0] == '"' and "string" not in (kinds(schema) or ("string",)):
        return value(json.loads(text), schema)  # some templates quote values of all kinds
    return text if whole else None


def _text(
    tape: Tape, fields: Fields, middle: Middle, schema: Mapping[str, Json]
) -> Reading[str | None]:
    """A value that stands as it is between marks."""
    closing, *more = pieces(fields.end)
    text_pieces: list[str] = []
    if not (yield from tape.until((closing,), text_pieces.append)):
        return None
    for piece in more:
        yield from tape.blank()
        yield from tape.starts(piece)
    text = "".join(text_pieces)
    text = text.removeprefix(_blank_end(middle.text)).removesuffix(_blank_start(fields.end))
    opening, ending = fields.wrapping or ("", "")
    if opening and text.startswith(opening) and text.endswith(ending):
        return json.dumps(text[len(opening) : -len(ending)], ensure_ascii=False)
    if middle.kinds == {"string"}:
        return json.dumps(text, ensure_ascii=False)
    return value(text, schema)


def _blank_start(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def _blank_end(text: str) -> str:
    return text[len(text.rstrip()) :]


def parameters(lark: Lark, fields: Fields, tool: OfferedTool) -> str:
    """An expression for all arguments of a tool, in the order of its schema."""
    names = sorted(tool.properties, key=str.lower) if fields.in_order else tool.properties
    rules = {name: _argument(lark, fields, tool, name) for name in names}
    if not fields.between:
        return " ".join(f"{rule}{'' if n in tool.required else '?'}" for n, rule in rules.items())
    members = [(name in tool.required, rule) for name, rule in rules.items()]
    between = lark.literal(fields.between)
    return separated(lark, f"({between})?" if fields.joined else between, members)


def raw_parameters(
    lark: Lark, fields: Fields, tool: OfferedTool, ends: Sequence[tuple[str, str]]
) -> str:
    """An expression for arguments that nothing in them may end, and for what follows them.

    A string goes on to the next key, or to one of these ends, each with what comes after it.
    """
    quoted_fields = replace(fields, quotes=("'", "'"), raw=False)
    quote, _ = fields.quotes or ("", "")
    middle = fields.middles[0].text
    keys = [fields.between + fields.key + name + middle for name in tool.properties]
    follow = choice([quoted(quote + text) for text in (*keys, *(end for end, _ in ends))])
    stands = lark.terminal(f"{quoted(quote)} (TEXT & ~(TEXT {follow} TEXT))")
    begun = after = lark.rule(choice([f"{lark.literal(end)} {more}" for end, more in ends]))
    within = lark.rule(choice([f"{lark.through(quote + e, stands)} {more}" for e, more in ends]))
    for name in reversed(list(tool.properties)):
        head, schema = fields.key + name + middle, tool.parameter(name)
        plain = lark.shared(_plain(lark, quoted_fields, tool, schema))
        text = "string" in (kinds(schema) or ("string",))
        also = within if text else f'"\\"" {plain} "\\"" {after}'  # some have quotes around all
        value = lark.rule(f"{plain} {after} | {also}")
        needed = name in tool.required
        between = fields.between + head
        begun = _or(lark, f"{lark.literal(head)} {value}", "" if needed else begun)
        after = _or(lark, f"{lark.literal(between)} {value}", "" if needed else after)
        upto = lark.through(quote + between, stands)
        within = _or(lark, f"{upto} {value}", "" if needed else within)
    return begun


def _or(lark: Lark, one: str, other: str) -> str:
    return lark.rule(f"{one} | {other}" if other else one)


def _argument(lark: Lark, fields: Fields, tool: OfferedTool, name: str) -> str:
    """The name of a rule for a key and its value."""
    schema = tool.parameter(name)
    if fields.item is not None:
        written = Elements(lark, fields, tool).element(name, schema)
        head, shared = fields.key + name + fields.middles[0].text, fields.shared
        return lark.rule(f"{lark.literal(head)} {written} {lark.literal(shared)}")
    fields = fields.of(name)
    options = [
        f"{lark.literal(fields.key + name + middle.text)} "
        + _closed_value(lark, fields, tool, schema, middle)
        for middle in _middles(fields, schema)
    ]
    return lark.rule(choice(options))


def _middles(fields: Fields, schema: Mapping[str, Json]) -> list[Middle]:
    """List what may stand between a key and a value of these kinds."""
    allowed = kinds(schema)
    fitting = [m for m in fields.middles if not m.kinds or allowed is None or m.kinds & allowed]
    return fitting or list(fields.middles)


def _closed_value(
    lark: Lark, fields: Fields, tool: OfferedTool, schema: Mapping[str, Json], middle: Middle
) -> str:
    """A value and what closes it."""
    if fields.quotes is None and (listed := strings(schema)):
        return f"{choice([quoted(text) for text in listed])} {lark.literal(fields.end)}"
    text = "string" in (kinds(schema) or ()) and "string" in (middle.kinds or {"string"})
    if fields.quotes is None and text:
        return matching(lark, schema, fields.end) or lark.upto(fields.end.lstrip())
    return f"{_plain(lark, fields, tool, schema)} {lark.literal(fields.end)}"


def _plain(lark: Lark, fields: Fields, tool: OfferedTool, schema: Mapping[str, Json]) -> str:
    if fields.own:
        return Notation(lark, tool, fields.quotes, fields.inner_in_order).value(schema)
    in_order = fields.inner_in_order
    as_json = json_value(schema, tool, ObjectStyle(in_order=in_order))
    single = fields.quotes is not None and fields.quotes[0] == "'"
    if not is_plain(schema) or not (fields.python or single):
        return as_json
    allowed = kinds(schema) or frozenset()
    if allowed == {"boolean"} and fields.python:
        words = '"True" | "False"'
        return f"({words})" if fields.quotes else f'("true" | "false" | {words})'
    nested = fields.nested and allowed & {"array", "object"}
    if nested or (single and "string" in allowed):
        return choice([as_json, Notation(lark, tool, in_order=in_order).value(schema)])
    return as_json
