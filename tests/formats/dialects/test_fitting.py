"""Values follow schemas as a validator of JSON schemas says it, but for patterns and formats."""

from __future__ import annotations

import time

import jsonschema
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localspec.formats.dialects.fitting import fits

NAMES = st.sampled_from(["a", "b"])
SMALL = st.integers(0, 3)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), SMALL, st.just(1.5), st.text("ab", max_size=3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=6,
)
KINDS = ("object", "array", "string", "number", "integer", "boolean", "null")
SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minimum": SMALL,
        "maximum": SMALL,
        "exclusiveMinimum": SMALL,
        "exclusiveMaximum": SMALL,
        "minLength": SMALL,
        "maxLength": SMALL,
        "minItems": SMALL,
        "maxItems": SMALL,
        "minProperties": SMALL,
        "maxProperties": SMALL,
    },
).map(lambda schema: dict(list(schema.items())[:3]))
SCHEMAS = st.recursive(
    st.booleans() | SIMPLE | st.just({"$ref": "#/$defs/a"}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=6,
)


@settings(max_examples=200)
@given(schema=SCHEMAS, shared=SIMPLE, value=VALUES)
@example(schema={"enum": [{"a": 0}, [0]]}, shared={}, value={"a": False})
@example(schema={"enum": [{"a": 0}, [0]]}, shared={}, value=[False])
def test_a_value_follows_a_schema_where_a_validator_says_so(schema, shared, value):
    whole = {"allOf": [schema], "$defs": {"a": shared}}
    validator = jsonschema.Draft202012Validator(whole)
    assert fits(value, whole) == validator.is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "colour"}, 1),
        ({"type": 7, "required": "a", "enum": 3, "anyOf": {}, "minimum": "1"}, []),
        ({"properties": [], "additionalProperties": None}, {"a": 1}),
        ({"$ref": "#/nowhere"}, 1),
        ({"$ref": "elsewhere.json"}, 1),
        ({"pattern": "b", "format": "date"}, "a"),
        ({"patternProperties": {"^a": {}}, "additionalProperties": False}, {"a": 1}),
        ({"type": "integer"}, 1.0),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1),
    ],
)
def test_what_a_schema_does_not_say_in_plain_words_allows_anything(schema, value):
    assert fits(value, schema)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), True, "1", None])
def test_no_odd_number_is_a_whole_one(value):
    assert not fits(value, {"type": "integer"})


def test_a_schema_that_refers_to_itself_is_followed_in_linear_time():
    again = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}
    twice = [{"allOf": [again, {"required": ["b"]}]}, again]  # each looks at all of a value
    itself = {"$ref": "#/$defs/x"}
    schema = {**itself, "$defs": {"x": {"allOf": [itself], "anyOf": twice}}}
    value = {}
    for _ in range(60):
        value = {"a": value}
    begun = time.process_time()
    assert fits(value, schema)
    assert not fits({"a": {"a": 3}}, {**schema, "$defs": {"x": again}})
    assert time.process_time() - begun < 5  # 1 ms; 2 ** 60 steps where all is tried again


def test_what_is_nested_too_deeply_to_tell_does_not_follow():
    schema, value = {"type": "string"}, 1
    for _ in range(2000):
        schema, value = {"items": schema}, [value]
    assert not fits(value, schema)


@pytest.mark.parametrize(
    "items",
    [
        {"anyOf": [{"const": number} for number in range(2000)]},
        {"enum": [*range(2000)]},
        {"type": "object", "required": ["a"] * 2000},
    ],
)
def test_what_takes_too_many_checks_to_tell_does_not_follow(items):
    begun = time.process_time()
    made = dict if "required" in items else int
    value = [made({"a": 1} if made is dict else "1999") for _ in range(2000)]
    assert fits(value[:9], {"items": items})
    assert not fits(value, {"items": items})
    assert time.process_time() - begun < 5  # 0.1 s; many times that if all were tried
