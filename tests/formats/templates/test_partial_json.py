"""Text that was cut off is read as far as it goes."""

import json

import pytest
from pydantic_core import from_json

from localspec.formats.templates.partial_json import read_partial

TEXTS = (
    '{"a": 12, "b": [true, null, -1.5e3, "x\\n\\u00e9", {"c": {}}], "d\\"": "\\ud83d\\ude00 é"}',
    '[1, [2, "]"], {"a": "}{", "": ""}, false]',
    '  { "path" : "C:\\\\dir\\\\u12" , "n" : 0 }  ',
)


@pytest.mark.parametrize("text", TEXTS)
def test_every_beginning_of_a_text_is_read_as_another_reader_does(text):
    assert read_partial(text) == json.loads(text)
    for end in range(3, len(text)):
        cut = text[:end]
        assert read_partial(cut) == from_json(cut.encode(), allow_partial="trailing-strings"), cut


@pytest.mark.parametrize(
    "text",
    [
        "",
        "city: Paris",
        "{city: Paris}",
        "{city: Pa",
        "{'a': 1}",
        '{"a": 1,}',
        '{"a": 1, 2: 3}',
        '{"a": "\\ud83d"}',
        '{"a": "b\nc',
        '{"a": yes',
        "[" * 100_000,
    ],
)
def test_what_is_no_beginning_of_json_is_refused(text):
    with pytest.raises(ValueError, match="neither JSON nor the beginning of it"):
        read_partial(text)


def test_what_follows_a_value_is_ignored():
    assert read_partial('{"a": 1}} and more') == {"a": 1}
