"""What a request asks for is counted before it is parsed, and too much of it is refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from localspec.apps.server.faults import Refused
from localspec.apps.server.requests.json_size import LIMITS, JsonSize, check_size

TEXTS = some.text('\\"{}[]:,\n aé漢\u2028')
VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | TEXTS,
    lambda inner: some.lists(inner, max_size=5) | some.dictionaries(TEXTS, inner, max_size=5),
)


def counted(value) -> JsonSize:
    """Count a value that has been parsed."""
    match value:
        case dict():
            inner, own = [*map(counted, value.values())], len(value)
        case list():
            inner, own = [*map(counted, value)], 0
        case _:
            return JsonSize()
    return JsonSize(
        1 + sum(each.containers for each in inner),
        own + sum(each.fields for each in inner),
        max(len(value) - 1, 0) + sum(each.commas for each in inner),
        1 + max((each.depth for each in inner), default=0),
    )


@given(value=VALUES, ascii_only=some.booleans(), piece=some.integers(1, 40))
def test_json_is_counted_as_it_would_be_parsed(value, ascii_only, piece):
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert check_size(text, piece) == counted(json.loads(text))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[" + "{}," * LIMITS.containers + "0]", "more than 100,000 objects and lists"),
        ("{" + '"":0,' * LIMITS.fields + '"":0}', "more than 200,000 fields"),
        ("[" + "0," * (LIMITS.commas + 1) + "0]", "more than 1,200,000 values"),
        ("[" * 201 + "]" * 201, "more than 200 levels of objects and lists"),
    ],
)
def test_too_much_of_anything_is_refused_by_its_number(text, what):
    with pytest.raises(Refused, match=what):
        check_size(text)


def test_texts_may_say_anything():
    text = '{"[:,' * 1_000_000
    assert check_size(json.dumps([text])) == JsonSize(1, 0, 0, 1)


def test_no_more_is_looked_at_than_it_takes_to_refuse():
    begun = "[" * 70_000  # no text in it ends
    with pytest.raises(Refused, match="levels"):
        check_size(begun + '"' * 3)
