"""Calls that are plain JSON are read whatever the template says, and all else stays as it came."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.formats.dialects import Arguments, Call, Content, PlainCalls, Reasoning, dialect_of
from localspec.formats.dialects.offered_tools import offered_tools
from tests.formats.dialects.model_replies import OFFERED, REPLIES
from tests.formats.dialects.samples import (
    CITY,
    CITY_CALL,
    FAMILIES,
    FIRST,
    SECOND,
    TERMS,
    TERMS_CALL,
    TOOLS,
    joined,
)

TEMPLATES = {name: family.template for name, family in FAMILIES.items()}
HERMES = TEMPLATES["hermes"]
INDENTED = json.dumps({"name": "weather", "arguments": json.loads(CITY)}, indent=2)


def reader(template=HERMES, *, tools=TOOLS, several=True, prompt=""):
    return PlainCalls(dialect_of(template).reader(tools, prompt), offered_tools(tools), several)


def read(text, template=HERMES, cuts=(), **options):
    """Parts of a reply that is cut at these places."""
    reading = reader(template, **options)
    ends = [*sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    parts = [part for piece in pieces for part in reading.read(piece)]
    return joined(parts + reading.close())


def calls(text, **options):
    """Names and values of the calls of a reply."""
    parts = read(text, **options)
    arguments = {part.index: json.loads(part.text) for part in parts if isinstance(part, Arguments)}
    return [(part.name, arguments[part.index]) for part in parts if isinstance(part, Call)]


@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "harmony"])
@pytest.mark.parametrize("fence", ["", "```json\n", "```\n", "```tool_call\n", "````json "])
def test_a_call_in_plain_json_is_read_whatever_the_template_says(name, fence):
    close = "\n" + fence[: fence.count("`")] if fence else ""
    for before, after in (("", ""), ("Let me look.\n\n", ""), ("\n ", "\nThat will tell.")):
        parts = read(f"{before}{fence}{FIRST}{close}{after}", TEMPLATES[name])
        parts_before = [Content(before.strip())] if before.strip() else []
        parts_after = [Content(after.strip())] if after else []
        assert parts == [*parts_before, *CITY_CALL, *parts_after]


def test_a_call_in_the_last_channel_of_harmony_is_read():
    text = "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>"
    parts = read(f"{text}```json\n{FIRST}\n```", TEMPLATES["harmony"])
    assert parts == [Reasoning("Hm"), *CITY_CALL]


def test_a_call_follows_what_was_thought():
    template = HERMES + "<think></think>"
    for opening, prompt in (("<think>", ""), ("", "<think>\n")):
        text = f"{opening}I call\n{FIRST}\n</think>\n\n```json\n{FIRST}\n```"
        parts = read(text, template, prompt=prompt)
        assert parts == [Reasoning(f"I call\n{FIRST}"), *CITY_CALL]


@pytest.mark.parametrize(
    ("opening", "close"),
    [("<tools>", "</tools>"), ("<function>\n", "\n</function>"), ("<tools> ", " </tool")],
)
def test_a_call_may_stand_within_a_tag_of_any_name(opening, close):
    assert read(f"I look.\n{opening}{FIRST}{close}\nSo.") == [
        Content("I look."),
        *CITY_CALL,
        Content("\nSo."),
    ]
    two = read(f"{opening}[{FIRST}, {SECOND}]{close}")
    assert two == read(f"{opening}{FIRST}\n{SECOND}{close}") == [*CITY_CALL, *TERMS_CALL]
    other = f"{opening}{FIRST.replace('city', 'town')}{close}"
    assert read(other) == [Content(other)]


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST}\n{SECOND}",
        f"{FIRST}, {SECOND}",
        f"{FIRST};\n\n{SECOND}",
        f"[{FIRST}, {SECOND}]",
        f"```json\n[\n  {FIRST},\n  {SECOND}\n]\n```",
        f"```json\n{FIRST}\n{SECOND}\n```",
        f"```json\n{FIRST}\n```\n\n```json\n{SECOND}\n```",
    ],
)
def test_several_calls_in_a_row_or_in_a_list_are_several(text):
    assert read(text) == [*CITY_CALL, *TERMS_CALL]


def test_text_between_calls_stays():
    text = f"First:\n```json\n{FIRST}\n```\nThen:\n```json\n{SECOND}\n```\n"
    assert read(text) == [Content("First:"), *CITY_CALL, Content("\nThen:"), *TERMS_CALL]


@pytest.mark.parametrize(
    "call",
    [
        f'{{"name": "weather", "parameters": {CITY}}}',
        f'{{"function": "weather", "arguments": {CITY}}}',
        f'{{"arguments": {CITY}, "name": "weather"}}',
        f'{{"type": "function", "function": {{"name": "weather", "arguments": {CITY}}}}}',
        f'{{"id": "call_1", "type": "function", "name": "weather", "arguments": {CITY}}}',
        f'{{"name": "weather", "arguments": {json.dumps(CITY)}}}',
        f"{{'name': 'weather', 'arguments': {CITY}}}",
    ],
)
def test_a_call_is_read_in_each_way_in_which_models_write_its_fields(call):
    assert calls(call) == [("weather", json.loads(CITY))]
    assert calls(f"```json\n{call}\n```") == [("weather", json.loads(CITY))]


@pytest.mark.parametrize(("reply", "made"), REPLIES)
def test_replies_of_small_models_are_read(reply, made):
    assert calls(reply, tools=OFFERED) == made
    if not made:
        assert read(reply, tools=OFFERED) == [Content(reply)]


NONE = {
    "another name": FIRST.replace("weather", "whether"),
    "no arguments": '{"name": "weather"}',
    "a value of another kind": FIRST.replace("3", '"3"'),
    "a number out of bounds": FIRST.replace("3", "31"),
    "a parameter that is not there": FIRST.replace("city", "town"),
    "a parameter too many": FIRST.replace('"days"', '"when": 1, "days"'),
    "another field": FIRST.replace('"name"', '"about": 1, "name"'),
    "a field twice": FIRST.replace('"name"', '"name": "weather", "name"'),
    "a number of too many digits": FIRST.replace("3", "3" * 5000),
    "a call within a call within a call": f'{{"function": {{"function": {FIRST}}}}}',
    "a list with something else": f"[{FIRST}, 1]",
    "a list with another name": f"[{FIRST}, {SECOND.replace('add', 'subtract')}]",
    "a list that does not end": f"[{FIRST}",
    "a call that does not end": FIRST[:-2],
    "a text that does not end": FIRST[:40],
    "the definition of a tool": json.dumps(TOOLS[0]),
    "JSON": '{"city": "Oslo", "days": 3}',
    "a list": "[1, 2]",
    "a link": "[weather](https://example.org)",
    "within a line": f"I call {FIRST}",
    "within quotes": f"> {FIRST}",
    "a tag that is none": f"<div class=x>{FIRST}</div>",
    "a tag that does not end": f"<tools {FIRST}",
    "an end of a tag": f"</tools>{FIRST}",
    "single signs of a fence": f"`{FIRST}`",
    "an empty fence": "```\n```",
    "blanks": " \n\t\n ",
}


@pytest.mark.parametrize("kind", NONE)
@pytest.mark.parametrize("fence", [False, True])
def test_what_is_no_call_stays_text_to_the_byte(kind, fence):
    text = f"```json\n{NONE[kind]}\n```\n" if fence else NONE[kind]
    for whole in (text, f"\n Look:\n\n{text}", f"{text}\n\nWell."):
        assert read(whole) == [Content(whole)]
        assert read(whole, cuts=range(len(whole))) == [Content(whole)]


def test_the_schema_of_a_tool_is_no_call_of_it():
    tools = [{"function": {"name": "f", "parameters": {"properties": {"a": {}}}}}]
    echo = '{"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}'
    assert calls(echo, tools=tools) == []
    named = [{"function": {"name": "f", "parameters": {"properties": {"properties": {}}}}}]
    assert calls(echo, tools=named) != []


@pytest.mark.parametrize("end", ["", "\n```", "\n```\n"])
def test_a_call_among_other_lines_of_a_fence_is_none(end):
    for fence in ("```python\n", "```\n", "```json\n"):
        text = f"{fence}call(\n{FIRST}\n){end}"
        assert read(text) == [Content(text)]


def test_a_fence_that_is_no_call_hides_no_later_one():
    text = f"```python\nprint()\n```\n```json\n{FIRST}\n```"
    assert read(text) == [Content("```python\nprint()\n```"), *CITY_CALL]
    assert read(f"{{\n{FIRST}") == [Content("{"), *CITY_CALL]


def test_nothing_of_a_call_is_shown_before_it_is_known_to_be_one():
    reading = reader()
    assert [part for letter in f"Yes.\n```json\n{FIRST[:-1]}" for part in reading.read(letter)] == [
        *map(Content, "Yes.")
    ]
    assert reading.read("}") == list(CITY_CALL)
    assert reading.read("\n```") + reading.close() == []


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("``", "x"),
        ("```", "python\nx"),
        ("<tools", "="),
        ("<tools>", "x"),
        ("```json\n", "x"),
        ("```json\n{", '"c'),
        ("{", '"x'),
        ("{", "}"),
        ("[", "1"),
        ("[", "["),
        ('{"name": "', "q"),
        ('{"name": "weather", "', "q"),
        ('{"name": "weather", "arguments": {"city": "O", "days": 31', "}"),
    ],
)
def test_text_is_let_go_as_soon_as_it_cannot_be_a_call(begin, end):
    reading = reader()
    assert [part for letter in f"Yes.\n{begin}" for part in reading.read(letter)] == [
        *map(Content, "Yes.")
    ]
    assert joined(reading.read(end))[0].text.strip("\n") in (begin + end, (begin + end).strip())


def test_a_reply_that_calls_in_the_form_of_its_template_calls_in_no_other():
    own = FAMILIES["hermes"].two
    assert read(f"{own}\n{FIRST}") == [*CITY_CALL, *TERMS_CALL, Content(FIRST)]


def test_one_call_is_read_where_only_one_is_wished():
    assert read(f"{FIRST}\n{SECOND}", several=False) == [*CITY_CALL, Content(SECOND)]


def test_without_tools_nothing_is_a_call():
    text = f"```json\n{FIRST}\n```"
    assert read(text, tools=()) == [Content(text)]


PIECES = [
    *(FIRST, SECOND, INDENTED, CITY, TERMS, *NONE.values()),
    *(
        "<tools>",
        "</tools>",
        "<",
        "</",
        ">",
        "```json\n",
        "```\n",
        "\n```",
        "\n```\n",
        "```",
        "`",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        '"',
    ),
    *("\n", "\n\n", " ", "\t", "Well.", "é😀", "\\", "<tool_call>", "</tool_call>", ": "),
    *('{"name": ', '"weather"', '"arguments": ', '"function": {', "'name'", '"id": 1'),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


@settings(max_examples=100)
@given(text=TEXTS, name=st.sampled_from([*TEMPLATES]), data=st.data())
def test_no_reading_depends_on_how_the_text_was_cut(text, name, data):
    whole = read(text, TEMPLATES[name])
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert read(text, TEMPLATES[name], cuts) == whole
    assert read(text, TEMPLATES[name], range(len(text))) == whole


@settings(max_examples=100)
@given(text=TEXTS)
def test_a_text_without_calls_is_what_came_and_calls_take_nothing_but_themselves(text):
    parts = read(text)
    if not any(isinstance(part, Call) for part in parts):
        assert parts == ([Content(text)] if text else [])
    said = "".join(part.text for part in parts if isinstance(part, Content))
    assert said.count("Well.") == text.count("Well.")


SIZE = 200_000
HOSTILE = {
    "brackets": "[" * 1_000_000,
    "lines of brackets": "[\n" * (SIZE // 2),
    "braces": "{\n" * (SIZE // 2),
    "nested calls": '{"function": ' * (SIZE // 13),
    "deep": '{"name": "weather", "arguments": ' + '{"city": ' * (SIZE // 9),
    "lists in arguments": '{"name": "weather", "arguments": {"city": ' + "[" * SIZE,
    "an endless text": '{"name": "weather", "arguments": {"city": "' + "a\n" * (SIZE // 2),
    "an endless number": '{"name": "weather", "arguments": {"days": ' + "1" * SIZE,
    "an endless list": "[" + f"{FIRST}, " * (SIZE // 70),
    "an endless row": f"{FIRST},\n" * (SIZE // 70),
    "a fence that never ends": "```\n" + "{\n" * (SIZE // 2),
    "fences": "```\n" * (SIZE // 4),
    "signs of a fence": "`" * SIZE,
    "tags": "<a>\n" * (SIZE // 4),
    "a tag": "<" + "a" * SIZE,
    "a language": "```" + "a" * SIZE,
    "blanks": "\n" * SIZE,
    "backslashes": '{"name": "weather", "arguments": {"city": "' + "\\" * SIZE,
    "many fields": '{"id": "",' * (SIZE // 10),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_take_linear_time_and_stay_text(name):
    begun = time.process_time()
    reading = reader()
    parts = [
        part
        for start in range(0, len(HOSTILE[name]), 4096)
        for part in reading.read(HOSTILE[name][start : start + 4096])
    ]
    parts += reading.close()
    if not any(isinstance(part, Call) for part in parts):
        assert "".join(part.text for part in parts) == HOSTILE[name]
    assert time.process_time() - begun < 20  # 0.1 to 1 s; what is quadratic takes minutes
