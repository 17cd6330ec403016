"""Schemas of tools, repaired where a client wrote something else."""

from __future__ import annotations

import pytest

from localspec.formats.dialects.offered_tools import offered_tools
from localspec.formats.dialects.schemas import followable, repair_tool

MEMBERS = [
    ({"type": "STRING"}, {"type": "string"}),
    ({"type": "int", "minimum": "1.0"}, {"type": "integer", "minimum": 1}),
    ({"type": "int", "maximum": 10**400}, {"type": "integer"}),
    ({"type": "date", "description": "when"}, {"description": "when"}),
    ({"type": ["str", "None"]}, {"type": ["string", "null"]}),
    ({"type": "string", "nullable": True}, {"type": ["string", "null"], "nullable": True}),
    ({"type": "string", "minLength": "x", "enum": []}, {"type": "string"}),
    ({"type": "array", "items": {"type": "any"}}, {"type": "array", "items": {}}),
    ({"type": "array", "items": [1]}, {"type": "array"}),
    ({"anyOf": [{"type": "bool"}, 5]}, {"anyOf": [{"type": "boolean"}, {}]}),
    ({"$ref": "#/$defs/no"}, {}),
    ({"$ref": "#/$defs/yes"}, {"$ref": "#/$defs/yes"}),
    (
        {"properties": {"id": {}, "type": {"type": "int"}, "required": "no"}},
        {"properties": {"id": {}, "type": {"type": "integer"}, "required": {}}},
    ),
    ({"required": True, "exclusiveMinimum": True}, {}),
    ("text", {}),
    (False, False),
]


def tool(parameters, **more):
    return {"type": "function", "function": {"name": "f", "parameters": parameters, **more}}


@pytest.mark.parametrize(("given", "right"), MEMBERS)
def test_a_schema_is_put_as_the_standard_has_it(given, right):
    parameters = {"properties": {"a": given}, "$defs": {"yes": {"type": "string"}}}
    repaired = repair_tool(tool({"$schema": "x", **parameters}))["function"]["parameters"]
    assert repaired == {"properties": {"a": right}, "$defs": parameters["$defs"], "type": "object"}
    assert repair_tool(tool(repaired)) == tool(repaired)
    [function] = offered_tools([tool(repaired)])
    assert function.properties["a"] == (right or {})


def test_a_strict_tool_stays_as_it_is():
    strict = tool({"type": "OBJECT", "properties": {"a": {"type": "str"}}}, strict=True)
    assert repair_tool(strict) == strict


def test_what_is_clearly_no_object_stays_and_is_refused():
    assert repair_tool(tool({"type": "STR"}))["function"]["parameters"] == {"type": "string"}


def test_a_schema_that_no_grammar_can_follow_leaves_the_arguments_open():
    wrong = {"type": "object", "properties": {"a": {"type": "number", "minimum": True}}}
    assert not followable('{"type": "number", "minimum": true}')
    [function] = offered_tools([tool(wrong)])
    assert function.schema == {"type": "object"}
    deep = {"type": "object"}
    for _ in range(150):
        deep = {"type": "object", "properties": {"a": deep}}
    assert offered_tools([repair_tool(tool(deep))])
