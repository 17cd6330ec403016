"""Which grammars a model can be held to, and how it spells what must follow."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import NONE
from localspec.formats.grammar.compile_child import DEEPER_BYTES, NICENESS, on_stack
from localspec.formats.grammar.compile_trial import (
    TOO_LONG,
    compile_in_child,
    is_quick,
    lark_of_gbnf,
)
from localspec.formats.grammar.compiler import Lexicon
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.testing import Alphabet

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
    "deep rules": (
        "lark",
        "start: r0\n" + "\n".join(f'r{at}: "a" r{at + 1}' for at in range(5000)) + '\nr5000: "b"',
        "nested too deeply",
    ),
    "long to begin": ("regex", "(a{1000}){300}", "s of work|too many"),
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


MANY = Lexicon(Alphabet([*(bytes([at]) for at in range(256)), *[b""] * 160_000]))


@pytest.mark.parametrize("token", ["<[151645]>", "<[151645-151647,3]>", "<[^151645]>", "<151645>"])
def test_a_grammar_may_name_the_tokens_of_a_large_vocabulary(token):
    text = f'start: "a" {token} B\nB: /<[0-9]><\\w{{2,9}}>/'
    followed = MANY.constraint(Grammar("lark", text), frozenset())
    assert not followed.over([ord("a")])


ENDLESS = "start: A\nA: " + " & ".join(f"/(.*[a-z]{at}.{{{at}}}.*)/" for at in range(100))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of processor time")
@pytest.mark.timeout(25)
def test_compiling_that_takes_long_is_given_up():
    from llguidance import LLMatcher

    request = {"source": LLMatcher.grammar_from_lark(ENDLESS)}
    assert compile_in_child(request, seconds=1) == {"fault": TOO_LONG}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of processor time")
@pytest.mark.timeout(25)
def test_a_token_hides_no_grammar_that_takes_long():
    text = ENDLESS.replace("start: A", "start: <[151645]> A")
    with pytest.raises(UsageError, match=TOO_LONG):
        MANY.constraint(Grammar("lark", text), frozenset())


def test_a_schema_whose_patterns_could_take_long_is_not_compiled_at_once():
    patterns = [{"pattern": f"^{letter}"} for letter in "abcdefghij"]
    assert is_quick(json.dumps({"anyOf": patterns[:8]}))
    assert not is_quick(json.dumps({"anyOf": patterns}))
    assert not is_quick(json.dumps({"anyOf": patterns}).replace("p", "\\u0070"))
    assert not is_quick(json.dumps({"enum": ["long" * 2000]}))


@pytest.mark.parametrize(
    ("gbnf", "fits", "not_fits"),
    [
        ('root ::= ((("a"{1,2}){1,2}){1,2}) "."', ["a.", "aaaaaaaa."], ["aaaaaaaaa."]),
        ('root ::= ("(" | "b"+)? ( ("a"*) )+ [)]+ # (x+)*', [")", "bbaa)"], ["b"]),
        ('root ::= ("a)+"+ )* "x"', ["x", "a)+a)+x"], ["ax"]),
    ],
)
def test_a_repetition_of_a_repetition_is_one_in_gbnf(gbnf, fits, not_fits):
    for text in (*fits, *not_fits):
        constraint = Lexicon(ASCII).constraint(Grammar("lark", lark_of_gbnf(gbnf)), ASCII.ends)
        masked = constraint.masked(np.zeros(ASCII.size, np.float32), ASCII.encode(text).tolist())
        may_end = masked.min() < 0 and masked[ASCII.size - 1] == 0
        assert may_end == (text in fits), text


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
    loads = "import sys, localspec.apps.command_line, localspec.running.runtime.runtime"
    code = f"{loads}; sys.exit('llguidance' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities of their own")
def test_compiling_goes_behind_the_rounds_of_replies():
    before, during = os.nice(0), []
    on_stack(DEEPER_BYTES, lambda: during.append(os.nice(0)))
    assert during == [min(before + NICENESS, 19)]
    assert os.nice(0) == before
