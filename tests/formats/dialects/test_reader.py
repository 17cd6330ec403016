"""Replies of every family, streamed in pieces of every size."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.formats.dialects import Arguments, Call, Content, PlainCalls, Reasoning, dialect_of
from localspec.formats.dialects.offered_tools import offered_tools
from tests.formats.dialects.samples import (
    BEGIN,
    CITY,
    CITY_CALL,
    FAMILIES,
    FIRST,
    ONE,
    SECOND,
    SEP,
    TERMS,
    TERMS_CALL,
    THINKERS,
    TOOLS,
    joined,
)

HERMES, LLAMA, GENERIC = (FAMILIES[name].template for name in ("hermes", "llama", "generic"))
HARMONY, CODER, GRANITE = (FAMILIES[name].template for name in ("harmony", "qwen coder", "granite"))
MARKED = [name for name in FAMILIES if name not in ("pythonic", "generic", "llama", "harmony")]
SPEAKERS = [name for name in FAMILIES if name != "harmony"]


def read(template, text, *, tools=TOOLS, prompt="", cuts=()):
    """Parts of a reply cut at these places, and whether it was complete."""
    reader = PlainCalls(dialect_of(template).reader(tools, prompt), offered_tools(tools))
    ends = [*sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    parts = [part for piece in pieces for part in reader.read(piece)]
    parts += reader.close()
    assert reader.close() == []
    return joined(parts), reader.complete


def arguments(parts):
    """The arguments of each call, as text."""
    calls = [part.index for part in parts if isinstance(part, Call)]
    assert calls == list(range(len(calls)))
    arguments = {part.index: part.text for part in parts if isinstance(part, Arguments)}
    return [arguments.get(index, "") for index in calls]


def words(template, text):
    parts, complete = read(template, text)
    assert complete
    return parts


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_s_calls_are_read(name):
    family = FAMILIES[name]
    expected = [*CITY_CALL, *TERMS_CALL] if family.several else [*CITY_CALL]
    assert read(family.template, family.two) == (expected, True)


@pytest.mark.parametrize("name", FAMILIES)
def test_every_letter_may_come_alone(name):
    family = FAMILIES[name]
    whole = read(family.template, family.two)
    assert read(family.template, family.two, cuts=range(len(family.two))) == whole


@pytest.mark.parametrize("name", MARKED)
def test_text_around_calls_is_kept_and_blanks_next_to_calls_are_not(name):
    family = FAMILIES[name]
    before = read(family.template, f"One moment.\n\n{family.two}\n")
    assert before == ([Content("One moment."), *CITY_CALL, *TERMS_CALL], True)
    after = read(family.template, f" \n{family.two}\n\nThere.")
    assert after == ([*CITY_CALL, *TERMS_CALL, Content("There.")], True)
    both, _ = read(family.template, f"One moment.\n\n\n{family.two} \nThere.")
    assert both == [Content("One moment."), *CITY_CALL, *TERMS_CALL, Content(" \nThere.")]
    close, _ = read(family.template, f"One moment.\n\n{family.two}There.")
    assert close[-1] in (Content("\n\nThere."), Content("\nThere."))


@pytest.mark.parametrize("name", FAMILIES)
def test_without_tools_a_reply_is_text(name):
    family = FAMILIES[name]
    text = f" \n{family.two}\n and more\n "
    if name == "harmony":
        text = f"<|channel|>final<|message|>{text}"
    parts, complete = read(family.template, text, tools=())
    assert complete
    assert "".join(part.text for part in parts if isinstance(part, Content)).split() == (
        text.removeprefix("<|channel|>final<|message|>").split()
    )
    if name != "harmony":
        assert parts == [Content(text)]


@pytest.mark.parametrize("name", THINKERS)
def test_reasoning_comes_first_and_its_calls_are_none(name):
    family = THINKERS[name]
    expected = [Reasoning(f"I could\n{FIRST} or {family.two}"), *CITY_CALL]
    for prompt, opening in (("", "<think>\n"), ("<think>\n", ""), ("", "\n<think>")):
        text = f"{opening}I could\n{FIRST} or {family.two}\n\n</think>\n\n{family.two}"
        parts, complete = read(family.template, text, prompt=prompt)
        assert complete
        assert parts[:3] == expected


@pytest.mark.parametrize("name", THINKERS)
def test_reasoning_that_is_closed_or_empty_is_none(name):
    template = THINKERS[name].template
    assert read(template, "Hi", prompt="<think>\n\n</think>\n\n") == ([Content("Hi")], True)
    assert read(template, "<think>\n\n</think>\n\nHi") == ([Content("Hi")], True)
    assert read(template, "<think></think>\nHi") == ([Content("Hi")], True)
    assert read(template, "Hi <think>", tools=()) == ([Content("Hi <think>")], True)


def test_a_marked_answer_is_content():
    text = "<think>hm</think>\n<response>\nHello\n</response>\n"
    assert words(GRANITE, text) == [Reasoning("hm"), Content("Hello")]
    assert words(GRANITE, "a </response>") == [Content("a </response>")]


def test_the_arguments_of_json_stream_as_they_come():
    reader = dialect_of(HERMES).reader(TOOLS, "")
    assert reader.read('<tool_call>\n{"name": "weather"') == []
    assert reader.read(', "arguments": {"ci') == [Call(0, "weather"), Arguments(0, '{"ci')]
    assert reader.read('ty": "R') == [Arguments(0, 'ty": "R')]
    assert not reader.complete
    assert reader.read('ome"}') == [Arguments(0, 'ome"}')]
    assert reader.complete
    assert reader.read("}\n</tool") + reader.read("_call>") + reader.close() == []


def test_text_waits_only_while_it_may_become_a_mark():
    reader = dialect_of(HERMES).reader(TOOLS, "")
    assert reader.read("a <tool") == [Content("a")]
    assert reader.read("s") == [Content(" <tools")]
    assert reader.read(" x") == [Content(" x")]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>hello</tool_call>",
        '<tool_call>{"name": 3}</tool_call>',
        '<tool_call>{"name": "add", "arguments": 7}</tool_call>',
        '<tool_call>\n{"title": "add", "arguments": {}}\n</tool_call> x',
        '<tool_call>{"name": "a\\ud800", "arguments": {}}',
        '<tool_call>\n{"name": "add", "argu',
        '<tool_call><tool_call>{"name": ',
        "<tool_call>",
    ],
)
def test_what_is_no_call_is_content_as_it_was_written(text):
    assert words(HERMES, text) == [Content(text)]


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ('{"name": "add", "arguments": {"a": 1}', '{"a": 1}'),
        ('{"name": "add", "arguments": {"a": 1}}}', '{"a": 1}'),
        ('{"arguments": {"a": 1}, "name": "add"}', '{"a": 1}'),
        ('{"name": "add", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"name": "add", "arguments": {"a": 1}, "id": "x"}', '{"a": 1}'),
        ('{"name": "add"}', "{}"),
        ('{"name": "add", "arguments": null}', "{}"),
        ("{'name': 'add', 'arguments': {'a': True, 'b': 'it\\'s \"x\"',}}", None),
        ('{"name": "add", "arguments": {"a": "1\n\t2", "b": "\\d"}}', None),
    ],
)
def test_slips_that_leave_no_doubt_are_understood(text, given):
    parts = words(HERMES, f"<tool_call>\n{text}\n</tool_call>")
    if given is None:
        quirks = {"a": True, "b": 'it\'s "x"'} if "True" in text else {"a": "1\n\t2", "b": "\\d"}
        assert json.loads(parts[1].text) == quirks
    else:
        assert parts == [Call(0, "add"), Arguments(0, given)]


def test_what_follows_arguments_and_means_nothing_is_kept():
    text = '<tool_call>{"name": "add", "arguments": {} "so" }</tool_call>'
    assert words(HERMES, text) == [
        Call(0, "add"),
        Arguments(0, "{}"),
        Content('"so"'),
    ]


def test_arguments_that_break_are_told_and_what_follows_is_content():
    more = FAMILIES["hermes"].two
    text = f'<tool_call>{{"name": "add", "arguments": {{"a": what}}</tool_call>{more}'
    parts, complete = read(HERMES, text)
    assert not complete
    assert parts[:2] == [Call(0, "add"), Arguments(0, '{"a": what')]
    assert parts[2:] == [Content("}</tool_call>" + more)]


def test_arguments_too_deep_for_readers_of_json_are_broken():
    def nested(depth):
        return f'<tool_call>{{"name": "add", "arguments": {{"a": {"[" * depth}{"]" * depth}}}}}'

    assert read(HERMES, nested(150))[1]
    assert not read(HERMES, nested(250))[1]


@pytest.mark.parametrize("name", ["hermes", "mistral", "harmony", "deepseek, newer", "lfm2"])
def test_marks_are_reason_enough_to_call_what_is_not_offered(name):
    family = FAMILIES[name]
    assert words(family.template, family.two.replace("weather", "x.y"))[0] == Call(0, "x.y")


@pytest.mark.parametrize("text", [FIRST, f"```json\n{FIRST}\n```", f"[{FIRST}]"])
def test_plain_json_is_a_call_only_of_what_is_offered(text):
    assert words(GENERIC, text) == [*CITY_CALL]
    for other in (
        text.replace("weather", "x"),
        text.replace('"name": ', '"about": 1, "name": '),
        text.replace(', "arguments": ' + CITY, ""),
    ):
        assert words(GENERIC, other) == [Content(other)]
    nested = '{"function": "add", "parameters": "{\\"terms\\": [1]}"}'
    assert words(GENERIC, nested) == [Call(0, "add"), Arguments(0, '{"terms": [1]}')]
    other = nested.replace("1", "true")
    assert words(GENERIC, other) == [Content(other)]
    assert words(GENERIC, f"As in {FIRST}") == [Content(f"As in {FIRST}")]


def test_llama_calls_with_and_without_its_mark():
    two = f"{FIRST}; {SECOND}".replace("arguments", "parameters")
    assert words(LLAMA, two) == [*CITY_CALL, *TERMS_CALL]
    assert words(LLAMA, f"<|python_tag|>{two}") == [*CITY_CALL, *TERMS_CALL]
    typed = two.replace("{", '{"type": "function", ', 1)
    assert words(LLAMA, typed) == [*CITY_CALL, *TERMS_CALL]
    other = FAMILIES["llama"].two.replace("weather", "x")
    assert words(LLAMA, f"<|python_tag|>{other}")[0] == Call(0, "x")
    assert words(LLAMA, other) == [Content(other)]
    assert words(LLAMA, '<|python_tag|>print("a")') == [Content('<|python_tag|>print("a")')]


def test_parameters_become_what_their_schemas_say():
    properties = {
        "s": {"type": "string"},
        "n": {"type": "number"},
        "i": {"type": "integer"},
        "b": {"type": "boolean"},
        "o": {"type": "object"},
        "u": {"type": ["string", "null"]},
        "any": {},
        "e": {"enum": [1, "1"]},
    }
    wishes = {
        "s": ("\n 1\n", " 1"),
        "n": ("1e3", 1000.0),
        "i": ("-7", -7),
        "b": ("True", True),
        "o": ('{"a": [null]}', {"a": [None]}),
        "u": ("null", None),
        "any": ('"x"', '"x"'),
        "e": ('"1"', "1"),
        "unknown": ("7", 7),
    }
    tools = [
        {"function": {"name": "f", "parameters": {"type": "object", "properties": properties}}}
    ]
    parameters = "".join(
        f"<parameter={key}>{text}</parameter>" for key, (text, _) in wishes.items()
    )
    parts, _ = read(CODER, f"<function=f>{parameters}</function>", tools=tools)
    assert json.loads(parts[1].text) == {key: value for key, (_, value) in wishes.items()}
    wrong = "<function=f><parameter=n>many</parameter></function>"
    assert json.loads(read(CODER, wrong, tools=tools)[0][1].text) == {"n": "many"}


def test_harmony_s_channels():
    text = (
        "<|channel|>analysis<|message|>Let me see<|end|>"
        "<|start|>assistant<|channel|>commentary<|message|>Looking.<|end|>"
        f"<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{CITY}"
    )
    expected = [Reasoning("Let me see"), Content("Looking."), *CITY_CALL]
    assert words(HARMONY, text) == expected
    assert words(HARMONY, f"{text}<|call|>") == expected
    final = "<|channel|>final<|message|>Done.\n"
    assert words(HARMONY, final)[0] == Content("Done.\n")
    assert words(HARMONY, "Just text") == [Content("Just text")]
    broken = "<|channel|>commentary to=functions.f<|message|>print()"
    assert words(HARMONY, broken) == [Content(broken)]


def test_harmony_s_calls_end_where_one_breaks():
    call = FAMILIES["harmony"].two
    parts, complete = read(HARMONY, f"{call.replace('}', ' oops}')}<|end|><|start|>assistant{call}")
    assert not complete
    assert len(arguments(parts)) == 1
    assert parts[-1] == Content(f"oops}}<|end|><|start|>assistant{call}")


def test_blanks_between_the_words_of_a_call_do_not_matter():
    spaced = FAMILIES["pythonic"].two.replace("[w", " [ w").replace("(", " ( ").replace(",", " , ")
    spaced = spaced.replace("days=", "days = ").replace("]", "\n]\n")
    parts = words(FAMILIES["pythonic"].template, spaced)
    assert [json.loads(text) for text in arguments(parts)] == [json.loads(CITY), json.loads(TERMS)]


def test_mistral_may_number_its_calls():
    text = f"[TOOL_CALLS]weather[CALL_ID]a1B2[ARGS]{CITY}"
    assert words(FAMILIES["mistral, named"].template, text) == [*CITY_CALL]


def test_a_prompt_may_open_harmony_s_channel():
    prompt = "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>"
    assert read(HARMONY, "Hello", prompt=prompt) == ([Content("Hello")], True)


FRAGMENTS = sorted(
    {mark for family in FAMILIES.values() for mark in dialect_of(family.template).marks}
    | {family.two for family in FAMILIES.values()}
    | {"<think>", "</think>", "<response>", "</response>", "<|start|>assistant", "to=functions.f "}
    | {"<function=", "add", ">", "<parameter=", "a", "</parameter>", "</function>", "[add(a="}
    | {"{", "}", "[", "]", "(", ")", '"', "'", ",", ":", ";", "=", "\\", "\n", " ", "\u00a0", "é😀"}
    | {'"name"', '"arguments"', '{"name": "add", ', '"arguments": {', "1", "-", "true", "None"}
    | {"\\u12", "```", "<", "<tool", "<|", "[TOOL", "\t", "\x00", '{"name": "add", "arguments": "'}
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join),
    st.text(max_size=40),
)
TEMPLATES = st.sampled_from([f.template for f in [*FAMILIES.values(), *THINKERS.values()]])
PROMPTS = st.sampled_from(["", "<think>\n", "<|start|>assistant", "<|start|>assistant<|channel|>"])


@settings(max_examples=80)
@given(template=TEMPLATES, text=TEXTS, prompt=PROMPTS, data=st.data())
def test_no_reading_depends_on_how_the_text_was_cut(template, text, prompt, data):
    whole = read(template, text, prompt=prompt)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    assert read(template, text, prompt=prompt, cuts=cuts) == whole
    assert read(template, text, prompt=prompt, cuts=range(len(text))) == whole


@settings(max_examples=80)
@given(template=TEMPLATES, text=TEXTS, prompt=PROMPTS)
def test_arguments_are_objects_but_for_the_last_of_an_incomplete_reply(template, text, prompt):
    parts, complete = read(template, text, prompt=prompt)
    typed = arguments(parts)
    sure = typed if complete else typed[:-1]
    assert all(isinstance(json.loads(each), dict) for each in sure)
    assert all(part.text for part in parts if not isinstance(part, Call))


@settings(max_examples=60)
@given(
    name=st.sampled_from(SPEAKERS),
    pieces=st.lists(
        st.sampled_from(["MARK", "CALLS", "{", "<", "[", '"', "word", " "]), max_size=9
    ),
)
def test_no_word_is_lost_between_marks_and_calls(name, pieces):
    family = FAMILIES[name]
    mark = next(iter(dialect_of(family.template).marks), "")
    texts = {"MARK": mark, "CALLS": family.two}
    text = "".join(
        f"word{at}." if each == "word" else texts.get(each, each) for at, each in enumerate(pieces)
    )
    parts, _ = read(family.template, text)
    kept = "".join(part.name if isinstance(part, Call) else part.text for part in parts)
    assert [f"word{at}." in kept for at, each in enumerate(pieces) if each == "word"] == (
        [True] * pieces.count("word")
    )


@settings(max_examples=50)
@given(template=TEMPLATES, text=TEXTS)
def test_without_marks_of_reasoning_nothing_changes_where_there_are_no_tools(template, text):
    if "think" not in template and "<|channel|>" not in template:
        assert read(template, text, tools=()) == ([Content(text)] if text else [], True)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_reply_may_be_cut_off_anywhere(name):
    family = FAMILIES[name]
    for end in range(len(family.two)):
        parts, complete = read(family.template, family.two[:end])
        typed = arguments(parts)
        assert complete or CITY.startswith(typed[-1]) or TERMS.startswith(typed[-1])
        assert all(json.loads(each) for each in (typed if complete else typed[:-1]))


SIZE = 30_000
HOSTILE = {
    "brackets": "[" * SIZE,
    "braces": '{"name":' * (SIZE // 8),
    "functions": '{"function": ' * (SIZE // 13),
    "marks": "<tool_call>" * (SIZE // 11),
    "nested": f'<tool_call>{{"name": "add", "arguments": {"[" * SIZE}',
    "deep": f'<tool_call>{{"name": "add", "arguments": {{"a": {"{"}{"[" * SIZE}',
    "name": '<tool_call>{"name": "' + "a" * SIZE,
    "digits": '<tool_call>{"name": "add", "arguments": {"a": ' + "1" * SIZE,
    "parameter": "<function=add><parameter=a>" + "<" * SIZE,
    "header": "<|channel|>" + "a<" * (SIZE // 2),
    "blanks": "a" + " " * SIZE + "<",
    "quotes": "[add(a=" + "'\\" * (SIZE // 2),
    "sep": BEGIN + ONE + "a" * SIZE + SEP,
    "thought": "<think>" + "</thin" * (SIZE // 6),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_in_linear_time(name):
    began = time.thread_time()
    for family in FAMILIES.values():
        reader = dialect_of(family.template + "<think></think>").reader(TOOLS, "")
        parts = [
            part
            for start in range(0, SIZE, 4096)
            for part in reader.read(HOSTILE[name][start : start + 4096])
        ]
        parts += reader.close()
        assert parts
    assert time.thread_time() - began < 20  # 0.01 to 0.3 s; what is quadratic takes minutes
