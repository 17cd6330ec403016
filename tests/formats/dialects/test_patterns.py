"""Grammars as regular expressions, and patterns that the grammar engine cannot follow."""

from __future__ import annotations

import re
import time

import pytest

from localspec.formats.dialects.offered_tools import offered_tools
from localspec.formats.dialects.patterns import followable, pattern_of

PATCH = """
start: begin hunk+ end   // a comment
begin: "*** Begin" LF
end: "*** End" LF?
hunk: add | "*** Delete: " name LF -> delete
add.2: "*** Add: " name LF line+
?name: /[^\\/\\n]+/
line: ("+" | "-" | " ") /(.*)/ LF
%import common.LF
"""
TIMES = 'start: "go"i WS INT ("," INT)~1..2 ["!"] %import common.WS\n%import common.INT'.replace(
    " %", "\n%"
)


@pytest.mark.parametrize(
    ("syntax", "definition", "right", "wrong"),
    [
        ("lark", PATCH, "*** Begin\n*** Add: a b\n+x\n-\n*** Delete: c\n*** End", "*** Begin\n"),
        ("lark", TIMES, "GO 1,23,4!", "go 1"),
        ("lark", 'start: "a\\n\\"" /b\\/c/i', 'a\n"B/c', "a"),
        ("regex", "a+|b", "aa", "ab"),
    ],
)
def test_a_regular_grammar_is_a_pattern(syntax, definition, right, wrong):
    pattern = pattern_of(syntax, definition)
    assert re.fullmatch(pattern, right)
    assert not re.fullmatch(pattern, wrong)


@pytest.mark.parametrize(
    "definition",
    [
        "start: start",
        'start: "(" start ")" | "x"',
        'start: "a"\n%ignore " "',
        "start: other",
        "",
        "start",
        'start: "a',
        'start: ")"\n)',
        "start: " + "(" * 5000,
        "start: r0 r0\n"
        + "".join(f"r{at}: r{at + 1} r{at + 1}\n" for at in range(20))
        + 'r20: "x"',
        'start: "' + "a" * 30_000 + '"',
        "start: /a(?=b)/",
    ],
)
def test_what_is_no_regular_grammar_has_no_pattern(definition):
    began = time.process_time()
    assert pattern_of("lark", definition) is None
    assert time.process_time() - began < 1


def test_a_pattern_that_looks_around_is_left_out_of_a_tool_that_is_not_strict():
    assert followable("^a+$")
    assert not followable("^a(?!b)")
    assert not followable("[\ud800]")
    text = {"type": "string", "pattern": "^a(?!b)"}
    schema = {"type": "object", "properties": {"a": text, "b": {"type": "array", "items": text}}}
    schema["properties"]["pattern"] = {"type": "string", "pattern": "^a+$"}
    for strict in (False, True):
        function = {"name": "f", "parameters": schema, "strict": strict}
        [tool] = offered_tools([{"type": "function", "function": function}])
        assert (tool.schema == schema) == strict
        assert tool.properties["pattern"] == {"type": "string", "pattern": "^a+$"}
        assert ("pattern" in tool.properties["a"]) == strict


INT64 = {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1}
DOUBLE = {"type": "number", "minimum": -1.7e308, "maximum": 1.7e308}


@pytest.mark.parametrize(
    ("bounded", "followed"),
    [
        (INT64, {"type": "integer", "maximum": (1 << 63) - 1}),
        (DOUBLE, {"type": "number"}),
        ({"type": "integer", "minimum": 10**400}, {"type": "integer"}),
        *[({"type": "number", "exclusiveMaximum": 1 << 53},) * 2],
        *[({"type": "integer", "minimum": 3, "maximum": 1 << 62},) * 2],
    ],
)
def test_a_bound_too_large_for_the_engine_is_left_out(bounded, followed):
    schema = {"type": "object", "properties": {"a": bounded, "minimum": {"type": "string"}}}
    [tool] = offered_tools([{"type": "function", "function": {"name": "f", "parameters": schema}}])
    assert tool.properties["a"] == followed
    assert tool.properties["minimum"] == {"type": "string"}
