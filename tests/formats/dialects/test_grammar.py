"""Grammars: what they take the readers read, and the calls in it follow their schemas."""

from __future__ import annotations

import itertools
import json
import time

import jsonschema
import pytest

from localspec.base.errors import UsageError
from localspec.formats.dialects import Arguments, Bounds, Call, Content, dialect_of
from tests.formats.dialects.letters import Letters
from tests.formats.dialects.samples import FAMILIES, SCHEMAS, THINKERS, TOOLS, joined

CLOSERS = ['"', "}", "]", ")", "1", "3", ", ", "a", "</parameter>", "</think>", "Hm. ", "<", "{"]
CLOSERS += ["final", "commentary to=functions.now "]
THOUGHT = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"  # in harmony
DRAWS = 2  # of each kind
KINDS = list(itertools.product(["text", "control"], [False, True], [False, True]))


def grammar(family, kind, *, tools=TOOLS, required=True, parallel=True, prompt=""):
    """The vocabulary and a family's grammar in it."""
    dialect = dialect_of(family.template)
    letters = Letters(dialect.marks if kind == "control" else ())
    rules = dialect.grammar(Bounds(tools, letters.control, required, parallel, None, prompt))
    assert rules is not None
    return letters, rules


def read(family, text, prompt=""):
    reader = dialect_of(family.template).reader(TOOLS, prompt)
    parts = joined(reader.read(text) + reader.close())
    assert reader.complete
    return parts


def calls(parts):
    """The calls of a reply, each held against its schema."""
    names = [part.name for part in parts if isinstance(part, Call)]
    records = [json.loads(part.text) for part in parts if isinstance(part, Arguments)]
    for name, values in zip(names, records, strict=True):
        jsonschema.validate(values, SCHEMAS[name])
    return names


@pytest.mark.parametrize("kind", ["text", "control"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_s_own_calls_are_taken(name, kind):
    family = FAMILIES[name]
    for required in (True, False):
        letters, rules = grammar(family, kind, required=required)
        assert letters.accepts(rules, family.two)
        letters, rules = grammar(family, kind, required=required, parallel=False)
        assert letters.accepts(rules, family.two) != family.several


@pytest.mark.parametrize("kind", ["text", "control"])
@pytest.mark.parametrize("name", FAMILIES)
def test_calls_that_are_wrong_are_not_taken(name, kind):
    family = FAMILIES[name]
    for required in (True, False):
        letters, rules = grammar(family, kind, required=required)
        for right, wrong in (("weather", "whether"), ("3", "31"), ("city", "town")):
            text = family.two.replace(right, wrong)
            free = not required and name in ("llama", "generic", "pythonic") and right == "weather"
            assert letters.accepts(rules, text) == free
    letters, rules = grammar(family, kind)
    assert not letters.begins(rules, "Hello")
    only = [tool for tool in TOOLS if tool["function"]["name"] == "add"]
    letters, rules = grammar(family, kind, tools=only)
    assert not letters.accepts(rules, family.two)


@pytest.mark.parametrize("kind", ["text", "control"])
@pytest.mark.parametrize("name", FAMILIES)
def test_any_text_is_free_where_calls_are_not_required(name, kind):
    family = FAMILIES[name]
    letters, rules = grammar(family, kind, required=False)
    for text in (
        "Hello",
        '{"a": 1}',
        '{ "name": "weather", "about": 2}',
        "[weathering]",
        "a\n\n<b",
    ):
        if name == "harmony":
            text = f"{THOUGHT}<|channel|>final<|message|>{text}"
        assert letters.accepts(rules, text)


@pytest.mark.parametrize("kind", ["text", "control"])
@pytest.mark.parametrize("name", THINKERS)
def test_reasoning_may_come_before_calls_and_say_anything(name, kind):
    family = THINKERS[name]
    thought = "\nI might <tool> {"
    for required in (True, False):
        letters, rules = grammar(family, kind, required=required)
        assert letters.accepts(rules, family.two)
        assert letters.accepts(rules, f"<think>{thought}</think>\n\n{family.two}")
        assert letters.accepts(rules, f"<think>{thought}") != required
        letters, rules = grammar(family, kind, required=required, prompt="<think>\n")
        assert letters.accepts(rules, f"{thought}</think>\n\n{family.two}")
        assert letters.accepts(rules, thought) != required
    if kind == "text":
        assert letters.accepts(rules, f"as {family.two[:20]}</think>ok")


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_grammar_takes_is_read_as_calls_that_follow_their_schemas(name):
    family = FAMILIES[name]
    words = [*dialect_of(family.template).marks, *CLOSERS, family.two[:30]]
    drawn = 0
    kinds = [each for each in KINDS if name != "harmony" or each[0] == "control"]
    for kind, required, parallel in kinds:
        letters, rules = grammar(family, kind, required=required, parallel=parallel)
        for seed in range(DRAWS):
            if reply := letters.draw(rules, words, seed):
                parts = read(family, reply)
                made = calls(parts)
                assert len(made) <= 1 or parallel
                assert not required or made
                assert not required or not any(isinstance(part, Content) for part in parts)
                drawn += 1
    assert drawn > DRAWS * len(kinds) / 2


def test_a_schema_that_cannot_be_followed_in_full_is_an_error_only_where_it_must_be():
    schema = {"type": "object", "properties": {"a": {"type": "string", "format": "colour"}}}
    function = {"name": "f", "parameters": schema}
    family = FAMILIES["hermes"]
    letters, rules = grammar(family, "text", tools=[{"function": function}])
    assert letters.begins(rules, "<tool_call>")
    letters, rules = grammar(family, "text", tools=[{"function": function | {"strict": True}}])
    with pytest.raises(AssertionError, match="colour"):
        letters.matcher(rules)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("pythonic", "[f(a=1)]", "[f()]"),
        (
            "qwen coder",
            "<tool_call>\n<function=f>\n<parameter=a>\n1</parameter>\n</function>\n</tool_call>",
            "<tool_call>\n<function=f>\n</function>\n</tool_call>",
        ),
    ],
)
def test_what_is_required_is_written_also_where_nothing_more_is_said_of_it(name, right, wrong):
    tools = [{"function": {"name": "f", "parameters": {"required": ["a"]}}}]
    letters, rules = grammar(FAMILIES[name], "text", tools=tools)
    assert letters.accepts(rules, right)
    assert not letters.accepts(rules, wrong)


def test_letters_of_json_may_be_escaped_by_their_numbers():
    letters, rules = grammar(FAMILIES["hermes"], "text", required=True)
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "%s", "days": 3}}\n</tool_call>'
    for city in ("Å", "\\u00c5", "\\u4f60", "\\ud83d\\ude00"):
        assert letters.accepts(rules, call % city)
    assert not letters.begins(rules, call.partition("%s")[0] + "\\ud83dx")


def test_many_parameters_take_little_time():
    members = {f"p{at}": {"type": "string"} for at in range(3000)}
    schema = {"type": "object", "properties": members, "required": ["p1"]}
    tools = [{"function": {"name": "f", "parameters": schema}}]
    begun = time.process_time()
    _, rules = grammar(FAMILIES["qwen coder"], "text", tools=tools)
    assert "<parameter=p2999>" in rules
    assert time.process_time() - begun < 4  # 0.3 s; 10 s where each looks at all others


@pytest.mark.parametrize("name", FAMILIES)
def test_names_are_never_rules(name):
    schema = {"type": "object", "properties": {'"x" | TEXT': {"const": '" | TEXT'}}}
    for odd in ('f"\\n start: TEXT', "f/}%json", "é😀", "<[1]>"):
        tools = [{"function": {"name": odd, "parameters": schema}}]
        letters, rules = grammar(FAMILIES[name], "text", tools=tools)
        assert not letters.begins(rules, "Hello")


def test_no_tools_need_no_grammar():
    for family in FAMILIES.values():
        dialect = dialect_of(family.template)
        assert dialect.grammar(Bounds([], lambda _: None)) is None


@pytest.mark.parametrize(
    ("tool", "place"),
    [
        ({"type": "function"}, "function is missing"),
        ({"function": {"name": ""}}, "name is ''"),
        ({"function": {"name": 3}}, "name is 3"),
        ({"function": {"name": "a\nb"}}, "name is"),
        ({"function": {"name": "f", "parameters": {"type": "string"}}}, "parameters must be"),
        ({"function": {"name": "f", "parameters": []}}, "parameters must be"),
    ],
)
def test_a_tool_that_is_none_is_told_with_its_place(tool, place):
    with pytest.raises(UsageError, match=rf"tools\[1\].*{place}"):
        dialect_of(None).reader([TOOLS[0], tool], "")


FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize("kind", ["text", "control"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_reply_that_has_a_form_may_be_thought_over_first(name, kind):
    family = FAMILIES[name]
    dialect = dialect_of(family.template + "<think></think>")
    letters = Letters(dialect.marks if kind == "control" else ())
    rules = dialect.grammar(Bounds((), letters.control, form=FORM))
    thought, answer = "<think>Hm.</think>\n", '{"n": 3}'
    if name == "harmony":
        thought, answer = THOUGHT, f"<|channel|>final<|message|>{answer}"
    assert letters.accepts(rules, thought + answer)
    assert letters.accepts(rules, answer)
    assert not letters.accepts(rules, thought)
    assert not letters.accepts(rules, thought + answer + " and more")
    assert not letters.begins(rules, "The answer")
    if name != "harmony":
        rules = dialect.grammar(Bounds((), letters.control, form=FORM, prompt_end="<think>\n"))
        assert letters.accepts(rules, "Hm.</think>" + answer)
        assert not letters.accepts(rules, answer)
        if "</think>" not in family.template:
            bare = dialect_of(family.template)
            assert bare.grammar(Bounds((), letters.control, form=FORM)) is None
            if name in ("llama", "generic", "pythonic"):
                with pytest.raises(UsageError, match="calls have no mark"):
                    bare.grammar(Bounds(TOOLS, letters.control, form=FORM))
                return
            rules = bare.grammar(Bounds(TOOLS, letters.control, form=FORM))
            assert letters.accepts(rules, family.two)
            assert letters.accepts(rules, answer)
            assert not letters.begins(rules, "The answer")
