"""Arguments that are written one by one, as a grammar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from localspec.formats.dialects.elements import Elements
from localspec.formats.dialects.lark import Lark, choice, json_value, matching, quoted, separated
from localspec.formats.dialects.layout import Fields, Middle, ObjectStyle
from localspec.formats.dialects.notation_grammar import Notation, is_plain
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.values import kinds, strings
from localspec.formats.templates.message import Json


def parameters(lark: Lark, fields: Fields, tool: OfferedTool) -> str:
    """Return an expression for all arguments of a tool, in the order of its schema."""
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
    """Return an expression for arguments whose strings have no end of their own (`Fields.raw`).

    A string goes on to the next key or to one of `ends`: pairs of a text and the rule after it.
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
    """Add a rule for a key and its value; return its name."""
    schema = tool.parameter(name)
    if fields.item is not None:
        written = Elements(lark, fields, tool).element(name, schema)
        head, shared = fields.key + name + fields.middles[0].text, fields.shared
        return lark.rule(f"{lark.literal(head)} {written} {lark.literal(shared)}")
    fields = fields.for_key(name)
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
    """Return an expression for a value and what closes it."""
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
