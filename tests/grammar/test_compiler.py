"""Which grammars a model can be held to, and how it spells what must follow."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from localspec.errors import UsageError
from localspec.grammar.compiler import Lexicon
from localspec.grammar.grammar import Grammar
from localspec.testing import Alphabet
from localspec.tokens import NONE

ASCII = Alphabet([*(bytes([at]) for at in range(32, 127)), b""], ends=[95])


WRONG = {
    "no schema": ("json_schema", "[1]", "object"),
    "broken schema": ("json_schema", "{", "EOF"),
    "deep schema": ("json_schema", '{"properties":{"a":' * 5000 + "{}" + "}}" * 5000, "recursion"),
    "other type": ("json_schema", '{"type": "strng"}', "strng"),
    "unsupported": ("json_schema", '{"type": "array", "uniqueItems": true}', "uniqueItems"),
    "remote": ("json_schema", '{"$ref": "http://127.0.0.1:9/x"}', "does not fetch"),
    "endless reference": ("json_schema", '{"$ref": "#"}', "nothing to say"),
    "contradiction": ("json_schema", '{"type": "integer", "minimum": 5, "maximum": 3}', "greater"),
    "too large": (
        "json_schema",
        json.dumps(
            {
                "allOf": [
                    {"anyOf": [{"properties": {f"{kind}{at}": {}}} for kind in "ab"]}
                    for at in range(20)
                ]
            }
        ),
        "too large",
    ),
    "half a character": ("json_schema", '{"enum": ["\ud800"]}', "half a character"),
    "long": ("regex", "a" * 300_000, "300,000"),
    "open group": ("regex", "(a", "unclosed group"),
    "nested": ("regex", "(" * 50_000 + "a" + ")" * 50_000, "invalid regex"),
    "look-ahead": ("regex", "(?=a)b", "look-around"),
    "empty": ("regex", "", "nothing to say"),
    "impossible": ("regex", "[^\\s\\S]", "nothing to say"),
    "other letters": ("regex", "é", "nothing to say"),
    "no rule": ("lark", "start: foo", "foo"),
    "no grammar": ("lark", "", "Empty"),
    "nested rule": ("lark", "start: " + "(" * 50_000 + '"a"' + ")" * 50_000, "nested"),
    "circle": ("lark", "start: a\na: b\nb: a", "nothing to say"),
    "another kind": ("gbnf", "", "json_schema"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.timeout(20)
def test_a_grammar_that_cannot_be_followed_is_refused_in_a_line(name):
    kind, text, why = WRONG[name]
    with pytest.raises(UsageError, match=why) as refused:
        Lexicon(ASCII).constraint(Grammar(kind, text), ASCII.ends)
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


class Spaced:
    """A tokenizer that begins every text with a space, as some do."""

    def __init__(self):
        self.words = Alphabet([b" a", b"a", b"b", b" ", b"\n", b"ab", b""], ends=[6])
        self.size, self.ends = self.words.size, self.words.ends
        self.token_bytes, self.token_text = self.words.token_bytes, self.words.token_text

    def encode(self, text, *, special=False):
        return self.words.encode(" " + text)


def test_forced_text_is_tokenised_as_within_a_reply():
    constraint = Lexicon(Spaced()).constraint(Grammar("regex", "aba a\nb"), frozenset())
    assert constraint.forced(NONE).tolist() == [5, 1, 0, 4]


def test_nothing_is_loaded_for_grammars_before_one_is_asked_for():
    loads = "import sys, localspec.cli, localspec.runtime.runtime"
    code = f"{loads}; sys.exit('llguidance' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
