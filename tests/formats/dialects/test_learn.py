"""Dialects learnt from what templates write: calls are read back, and grammars allow them."""

from __future__ import annotations

import json
import time
from functools import lru_cache
from pathlib import Path

import pytest

from localspec.formats.dialects import (
    Arguments,
    Bounds,
    Call,
    Content,
    PlainCalls,
    Reasoning,
    dialect_of,
)
from localspec.formats.dialects.dialect import Harmony
from localspec.formats.dialects.offered_tools import offered_tools
from localspec.formats.dialects.probe import EOS, Untokenized
from localspec.formats.templates.chat_template import ChatTemplate
from tests.formats.dialects.letters import Letters
from tests.formats.dialects.samples import joined
from tests.formats.dialects.written import (
    ARGUMENTS,
    DONE,
    EACH,
    END,
    FIELDS,
    TEMPLATES,
    fields,
    template,
)

REAL = sorted((Path(__file__).parents[4] / "shared/data/templates").glob("*.jinja"))
PLACE = {
    "type": "object",
    "properties": {
        "names": {"type": "array", "items": {"type": "string"}},
        "x": {"type": "number"},
    },
}
SEARCH = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "deep": {"type": "boolean"},
        "limit": {"type": "integer"},
        "near": PLACE,
        "text": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["text"],
}
THING = {"type": "object", "properties": {"item": {"type": "string"}}}
SALE = {"type": "object", "properties": {"thing": THING}}
SCHEMAS = {"search_all": SEARCH, "now": {"type": "object", "properties": {}}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
WHOLE = {
    "code": "42",
    "deep": True,
    "limit": -7,
    "near": {"names": ["Å", 'q"u', "a\nb"], "x": 1.5},
    "text": "“é” 'a' \"b\" <c> {d}, [e]\n\tf: 你好 😀",
    "tags": [],
}
SHORT = {"text": "x"}
CASES = {
    "one": [("search_all", WHOLE)],
    "two": [("search_all", WHOLE), ("now", {})],
    "short": [("search_all", SHORT)],
    "none": [("now", {})],
}
ASKED = {"role": "user", "content": "Where?"}
WORDS = {"content": "I look.", "reasoning_content": "Hm, <tool> {"}


@lru_cache
def subject_of(source):
    return ChatTemplate(Untokenized(source))


def prompt(source):
    return subject_of(source).render([ASKED], TOOLS)


def reply(source, calls, **words):
    """What the template writes of a reply with these calls, short of its end."""
    made = [
        {"id": f"call{at:05}", "type": "function", "function": {"name": name, "arguments": given}}
        for at, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", **words, "tool_calls": made}
    text = subject_of(source).written([ASKED, message], TOOLS, {}, asking=False)
    return text.removeprefix(prompt(source)).replace(EOS, "").removesuffix("<|end|>")


def read(source, text, cuts=False):
    reader = PlainCalls(dialect_of(source).reader(TOOLS, prompt(source)), offered_tools(TOOLS))
    parts = [part for piece in (text if cuts else [text]) for part in reader.read(piece)]
    parts += reader.close()
    return joined(parts), reader.complete


def grammar(source, letters, required=False, *, parallel=True):
    asked = prompt(source)
    bounds = Bounds(TOOLS, letters.control, required, parallel, prompt_end=asked)
    return dialect_of(source).grammar(bounds)


def calls_of(parts):
    names = [part.name for part in parts if isinstance(part, Call)]
    arguments = {part.index: part.text for part in parts if isinstance(part, Arguments)}
    return [(name, json.loads(arguments[at])) for at, name in enumerate(names)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", TEMPLATES)
def test_calls_that_a_template_writes_are_read_back_whole(name, case):
    source = TEMPLATES[name]
    for words in ({}, WORDS):
        text = reply(source, CASES[case], **words)
        parts, complete = read(source, text)
        assert complete
        assert calls_of(parts) == CASES[case]
        others = [part for part in parts if isinstance(part, Content | Reasoning)]
        thought = [Reasoning(WORDS["reasoning_content"])] if "Hm" in text else []
        assert others == ([*thought, Content(WORDS["content"])] if words else [])
        assert read(source, text, cuts=True) == (parts, complete)


@pytest.mark.parametrize("kind", ["text", "control"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_grammar_allows_what_the_template_writes(name, kind):
    source = TEMPLATES[name]
    dialect = dialect_of(source)
    letters = Letters(dialect.marks if kind == "control" else ())
    for case, calls in CASES.items():
        for required in (True, False):
            rules = grammar(source, letters, required)
            assert letters.accepts(rules, reply(source, calls).lstrip())
            one = grammar(source, letters, required, parallel=False)
            if required or kind == "control":
                assert letters.accepts(one, reply(source, calls).lstrip()) == (case != "two")
        free = grammar(source, letters)
        if name != "cdata":  # its mark may begin a text
            assert letters.accepts(free, reply(source, calls, **WORDS))


@pytest.mark.parametrize("kind", ["text", "control"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_grammar_allows_no_call_that_breaks_its_schema(name, kind):
    source = TEMPLATES[name]
    dialect = dialect_of(source)
    letters = Letters(dialect.marks if kind == "control" else ())
    rules = grammar(source, letters, required=True)
    for given in (
        {"text": "x", "limit": "many"},
        {},
        {"deep": 3, "text": "x"},
        *([] if name == "elements" else [{"near": [], **SHORT}]),  # nothing is in both
    ):
        assert not letters.accepts(rules, reply(source, [("search_all", given)]).lstrip())
    assert not letters.accepts(rules, reply(source, [("other", SHORT)]).lstrip())
    assert not letters.begins(rules, "Hello")


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_call_may_be_cut_off_anywhere(name):
    source = TEMPLATES[name]
    text = reply(source, CASES["two"], content="I look.")
    for end in range(0, len(text), 3):
        parts, complete = read(source, text[:end])
        names = [part.name for part in parts if isinstance(part, Call)]
        assert names in ([], ["search_all"], ["search_all", "now"])
        whole = calls_of(parts) if complete else []
        assert whole == CASES["two"][: len(whole)]
        content = next((part.text for part in parts if isinstance(part, Content)), "")
        assert content[:7] in "I look." or text[:end].lstrip().startswith(content[:7])


def test_calls_without_names_are_numbered_by_their_identifiers():
    text = reply(TEMPLATES["kimi, by identifiers"], CASES["two"])
    assert "<|tool_call_begin|>functions.search_all:0<" in text
    assert "<|tool_call_begin|>functions.now:1<" in text


def thinking(source, begun):
    """The template, in which a prompt has begun to reason."""
    return source.replace("prompt %}<|assistant|>", f"prompt %}}<|assistant|>{begun}")


def test_a_call_is_read_where_the_prompt_has_begun_to_reason():
    source = thinking(TEMPLATES["hermes"], "<think>\n")
    text = reply(TEMPLATES["hermes"], CASES["two"])
    for cuts in (False, True):
        assert calls_of(read(source, text, cuts)[0]) == CASES["two"]
    assert read(source, "I call <tool_call>")[0] == [Reasoning("I call <tool_call>")]


def test_reasoning_is_found_that_the_prompt_begins_in_words():
    said = "<|{{ m.role }}|>{{ m.reasoning_content or '' }}"
    said += "{% if m.reasoning_content %}[BEGIN ANSWER]{% endif %}{{ m.content or '' }}"
    calls = EACH + '<call>{"name": "{{ f.name }}", "arguments": ' + ARGUMENTS + "}</call>" + DONE
    source = thinking(template(calls, said=said), "My thoughts:\n")
    text = reply(template(calls, said=said), CASES["one"], **WORDS)
    parts, _ = read(source, text)
    assert parts[:2] == [Reasoning(WORDS["reasoning_content"]), Content(WORDS["content"])]
    assert calls_of(parts) == CASES["one"]
    letters = Letters(())
    assert letters.accepts(grammar(source, letters), text)


@pytest.mark.parametrize(
    ("opening", "closing"), [("◁think▷", "◁/think▷"), ("# Plan\n", "\n# Reply\n")]
)
def test_reasoning_is_found_between_marks_of_any_letters(opening, closing):
    said = "<|{{ m.role }}|>{% if m.reasoning_content %}" + opening
    said += "{{ m.reasoning_content }}" + closing + "{% endif %}{{ m.content or '' }}"
    calls = EACH + '<call>{"name": "{{ f.name }}", "arguments": ' + ARGUMENTS + "}</call>" + DONE
    source, letters = template(calls, said=said), Letters(())
    parts, _ = read(source, text := reply(source, CASES["one"], **WORDS), cuts=True)
    assert parts[:2] == [Reasoning(WORDS["reasoning_content"]), Content(WORDS["content"])]
    assert calls_of(parts) == CASES["one"]
    assert letters.accepts(grammar(source, letters), text)
    assert read(source, "Hi")[0] == [Content("Hi")]


def test_a_call_is_read_of_whose_turn_the_prompt_has_the_beginning():
    calls = EACH + '<|{{ m.role }}|>/call\n{"name": "{{ f.name }}", "arguments": ' + ARGUMENTS
    said = "{% if m.content %}<|{{ m.role }}|>\n{{ m.content }}<|end|>{% endif %}"
    source = template(calls + "}" + DONE, said=said)
    letters, text = Letters(()), reply(source, CASES["one"])
    assert text.startswith("/call\n{")
    assert calls_of(read(source, text)[0]) == CASES["one"]
    assert letters.accepts(grammar(source, letters, required=True), text)


def test_a_turn_that_ends_breaks_off_reasoning_before_a_call():
    said = "<|{{ m.role }}|>{% if m.role == 'assistant' and m.content %}<think>\n"
    said += "{{ m.content.split('</think>')[-1] }}"
    said += "{% if m.tool_calls %}<|end|><|assistant|>{% endif %}{% else %}{{ m.content or '' }}"
    calls = EACH + '<call>{"name": "{{ f.name }}", "arguments": ' + ARGUMENTS + "}</call>" + DONE
    end = "{% if m.role == 'assistant' %}<|end|>{% endif %}" + END.removeprefix("<|end|>")
    source = thinking(template(calls, said=said + "{% endif %}", end=end), "<think>\n")
    text = reply(source, CASES["two"], content="Hm")
    assert text.startswith("Hm<|end|><|assistant|><call>")
    for cuts in (False, True):
        parts, complete = read(source, text, cuts)
        assert complete
        assert parts[0] == Reasoning("Hm")
        assert calls_of(parts) == CASES["two"]
    for kind in ((), dialect_of(source).marks):
        letters = Letters(kind)
        assert letters.accepts(grammar(source, letters), text)


def test_a_prompt_that_has_ended_reasoning_begins_none():
    source = thinking(TEMPLATES["hermes"], "<think>\n\n</think>\n\n")
    assert read(source, "Hi")[0] == [Content("Hi")]
    assert dialect_of(source).thought.open == "<think>"


def test_an_object_may_have_a_member_named_as_the_items_of_lists_are():
    reader = dialect_of(TEMPLATES["elements"]).reader(
        [{"type": "function", "function": {"name": "sell", "parameters": SALE}}], ""
    )
    value = "<thing>]<]mark[>[<item>a]<]mark[>[</item>]<]mark[>[</thing>"
    value += "]<]mark[>[<free>]<]mark[>[<item>1]<]mark[>[</item>]<]mark[>[</free>"
    text = f']<]mark[>[<calls>\n]<]mark[>[<call name="sell">]<]mark[>[{value}]<]mark[>[</call>\n'
    [call] = calls_of(joined([*reader.read(text), *reader.close()]))
    assert call == ("sell", {"thing": {"item": "a"}, "free": [1]})


ADDRESSED = template(
    "{% for c in m.tool_calls %}{% set f = c.function %}"
    "{% if not loop.first %}<|eom|><|start|>assistant{% endif %}"
    ' to={{ f.name }}<|message|><calls>\n<invoke name="{{ f.name }}">\n'
    + fields('<parameter name="', '">', "</parameter>\n")
    + "</invoke>\n</calls>"
    + DONE,
    said="<|start|>{{ m.role }}{% if m.reasoning_content %} to=self<|message|>"
    "{{ m.reasoning_content }}<|eom|><|start|>assistant{% endif %}"
    "{% if not m.tool_calls %} to=user<|message|>{{ m.content }}{% endif %}",
    end="<|eot|>{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}",
)


@pytest.mark.parametrize("case", CASES)
def test_a_call_is_read_that_says_whom_it_is_for_before_its_name(case):
    thought = WORDS["reasoning_content"]
    for words in ({}, {"reasoning_content": thought}):
        text = reply(ADDRESSED, CASES[case], **words).removesuffix("<|eot|>")
        parts, complete = read(ADDRESSED, text)
        assert complete
        assert calls_of(parts) == CASES[case]
        others = [part for part in parts if isinstance(part, Content | Reasoning)]
        assert others == ([Reasoning(thought)] if words else [])
        assert read(ADDRESSED, text, cuts=True) == (parts, complete)
    assert read(ADDRESSED, " to=user<|message|>Set to=5.")[0] == [Content("Set to=5.")]


def test_a_grammar_that_could_not_tell_a_call_from_reasoning_is_not_used():
    letters = Letters(dialect_of(ADDRESSED).marks)
    assert grammar(ADDRESSED, letters) is None
    rules = grammar(ADDRESSED, letters, required=True)
    for kind in ((), ("<|start|>", "<|message|>", "<|eom|>")):
        letters = Letters(kind)
        rules = grammar(ADDRESSED, letters, required=True)
        for case in ("one", "two"):
            for words in ({}, {"reasoning_content": "Hm"}):
                called = reply(ADDRESSED, CASES[case], **words).removesuffix("<|eot|>")
                assert letters.accepts(rules, called)
    assert not letters.begins(rules, "to=user<|message|>Hello")


def test_quoted_values_are_what_the_schema_says_they_are():
    calls = '[{{ f.name }}({% for k, v in f.arguments.items() %}{{ k }}="{{ v }}"'
    calls += "{{ ', ' if not loop.last }}{% endfor %})]"
    source = template(EACH + calls + DONE)
    body_fields = {"code": "42", "deep": True, "limit": -7, "near": {"x": 1.5}, "tags": ["a"]}
    [call] = calls_of(read(source, reply(source, [("search_all", body_fields)]))[0])
    assert call == ("search_all", body_fields)


RAW = {  # as templates write values that care for no quotes
    "bare": "{{ k }}={{ v }}",
    "quoted": '{{ k }}="{{ v }}"',
}
GIVEN = {
    "deep": False,
    "near": {"names": ["Å", 'q"u'], "x": -1.5},
    "text": "“é” 'a', \"b\" (c), limit =3\n\td: [e]",
    "tags": ["1", "x, y"],
}


@pytest.mark.parametrize("written", RAW)
def test_values_that_a_template_does_not_quote_are_read_up_to_what_follows(written):
    calls = "[{% for c in m.tool_calls %}{{ c.function.name }}("
    calls += "{% for k, v in c.function.arguments.items() %}" + RAW[written]
    calls += "{{ ', ' if not loop.last }}{% endfor %}){{ ', ' if not loop.last }}{% endfor %}]"
    source = template(calls)
    made = [("now", {}), ("search_all", GIVEN), ("search_all", SHORT)]
    text = reply(source, made, content="Hi [1](2)")
    for cuts in (False, True):
        parts, complete = read(source, text, cuts)
        assert complete
        assert parts[0] == Content("Hi [1](2)")
        assert calls_of(parts) == made
    proper = "[search_all(text='it\\'s', limit=3,tags=['a'])]"  # as models may write it
    call = ("search_all", {"text": "it's", "limit": 3, "tags": ["a"]})
    assert calls_of(read(source, proper)[0]) == [call]
    letters = Letters(())
    rules = grammar(source, letters, required=True)
    assert letters.accepts(rules, "[search_all(limit=3, text='it\\'s')]")
    plain = reply(source, [("now", {}), ("search_all", {**GIVEN, "text": "é, [e] = 'f'"})])
    assert letters.accepts(rules, plain)
    assert not letters.accepts(rules, plain.replace("deep", "deeper"))
    assert not letters.accepts(rules, "[search_all(limit=many, text=x)]")


BACKSLASHES = {"code": "C:\\new\\tmp", "text": "print('\\n', f(\"a\"))\n[f('b')], it's \\"}


def test_strings_are_read_as_they_stand_where_a_template_escapes_nothing():
    source, made = TEMPLATES["python without escapes"], [("search_all", BACKSLASHES), ("now", {})]
    text = reply(source, made)
    assert r"code='C:\new\tmp', " in text
    for cuts in (False, True):
        assert calls_of(read(source, text, cuts)[0]) == made
    escaped = r"<|tool_call_start|>[search_all(text='it\'s\n')]<|tool_call_end|>"
    assert calls_of(read(source, escaped)[0]) == [("search_all", {"text": "it's\n"})]
    for kind in ((), dialect_of(source).marks):
        letters = Letters(kind)
        rules = grammar(source, letters, required=True)
        assert letters.accepts(rules, text)
        assert not letters.begins(rules, "<|tool_call_start|>[search_all(text=x")
        assert not letters.accepts(rules, text.replace("now(", "never("))


def test_arguments_without_commas_are_read_as_those_with_commas():
    source = TEMPLATES["python without commas"]
    text = reply(source, CASES["one"])
    assert "deep=truelimit=-7near=" in text
    proper = '[search_all(deep=true, limit=-7, text="x, limit=3"), now()]'
    body_fields = {"deep": True, "limit": -7, "text": "x, limit=3"}
    assert calls_of(read(source, proper)[0]) == [("search_all", body_fields), ("now", {})]
    letters = Letters(())
    assert letters.accepts(grammar(source, letters, required=True), proper)


def test_content_may_follow_bare_calls_where_the_template_writes_it_there():
    calls = "[" + EACH + "{{ f.name }}(" + FIELDS + "{{ k }}={{ v | tojson }}" + DONE + ")" + DONE
    calls = "{% if m.tool_calls %}" + calls + "]{% endif %}"
    said, letters = "<|{{ m.role }}|>", Letters(())
    after = template("", said=said + calls + "{{ m.content or '' }}")
    text = reply(after, CASES["short"], content="I look.")
    assert text == '[search_all(text="x")]I look.'
    assert read(after, text)[0][-1] == Content("I look.")
    rules = grammar(after, letters)
    assert letters.accepts(rules, text)
    assert not letters.begins(rules, '[search_all(text="x")] [search_all(limit=')
    before = template(calls, said=said + "{{ m.content or '' }}")
    assert not letters.accepts(grammar(before, letters), text)


def test_a_call_is_read_whose_name_and_arguments_stand_in_an_object_of_their_own():
    calls = "{% for c in m.tool_calls %}<call>{{ c | tojson }}</call>{% endfor %}"
    for source in (template(calls), template("{{ m.tool_calls | tojson }}")):
        text = reply(source, CASES["two"])
        for cuts in (False, True):
            assert calls_of(read(source, text, cuts)[0]) == CASES["two"]
        assert read(source, text + "Bye")[0][-1] == Content("Bye")


def test_members_of_nested_objects_are_in_the_order_in_which_the_template_puts_them():
    place = {"type": "object", "properties": {"x": {"type": "number"}, "at": {"type": "string"}}}
    schema = {"type": "object", "properties": {"places": {"type": "array", "items": place}}}
    tools = [{"type": "function", "function": {"name": "go", "parameters": schema}}]
    source, letters = TEMPLATES["gemma 4"], Letters(())
    rules = dialect_of(source).grammar(Bounds(tools, letters.control, True))
    call = '<|tool_call>call:go{places:[{at:<|"|>a<|"|>,x:1}]}<tool_call|>'
    assert letters.accepts(rules, call)
    assert not letters.accepts(rules, call.replace('at:<|"|>a<|"|>,x:1', 'x:1,at:<|"|>a<|"|>'))


def test_the_mark_is_left_out_that_ends_what_the_prompt_has_begun():
    calls = EACH + '<call>{"name": "{{ f.name }}", "arguments": ' + ARGUMENTS + "}</call>" + DONE
    said = "<|{{ m.role }}|>{% if m.role == 'assistant' %}<|START_SAID|>{% endif %}"
    source = template(
        calls,
        said=said + "{{ m.content or '' }}",
        end="{% if m.role == 'assistant' %}<|END_SAID|>{% endif %}" + END,
    ).replace("prompt %}<|assistant|>", "prompt %}<|assistant|><|START_SAID|>")
    text = reply(source, CASES["one"], content="Hi")
    assert text.endswith("<|END_SAID|>")
    parts, _ = read(source, text)
    assert [part for part in parts if isinstance(part, Content)] == [Content("Hi")]
    assert calls_of(parts) == CASES["one"]
    assert read(source, "Hi<|END_SAID|>")[0] == [Content("Hi")]


def test_blanks_around_calls_are_allowed_where_the_template_writes_them():
    calls = EACH + '\n\n<call>{"name": "{{ f.name }}", "arguments": ' + ARGUMENTS + "}</call>\n"
    for kind in ((), ("<call>", "</call>", "<think>", "</think>")):
        letters = Letters(kind)
        for source in (template(calls + DONE), TEMPLATES["hermes"]):
            text = reply(source, CASES["two"])
            assert letters.accepts(grammar(source, letters, required=True), text)
            thought = "<think>\nHm\n</think>\n"
            assert letters.accepts(grammar(source, letters, required=True), thought + text)


def test_a_family_that_nobody_wrote_down_is_learnt():
    invented = template(
        "{% for c in m.tool_calls %}@@{{ c.function.name }}!"
        "{% for k, v in c.function.arguments.items() %}"
        "::{{ k }}=={{ v if v is string else v | tojson }};;\n{% endfor %}$$\n{% endfor %}"
    )
    text = reply(invented, CASES["two"], content="Hi")
    assert calls_of(read(invented, text)[0]) == CASES["two"]


@pytest.mark.parametrize(
    ("written", "text"), [("42", "42"), ("Oslo", "Oslo"), ('<|"|>a, b<|"|>', "a, b")]
)
def test_a_string_without_its_quotes_is_one_where_the_schema_says_so(written, text):
    call = f"<|tool_call>call:search_all{{text:{written},limit:42}}<tool_call|>"
    parts, _ = read(TEMPLATES["gemma 4"], call)
    assert calls_of(parts) == [("search_all", {"text": text, "limit": 42})]


def test_json_is_read_too_where_tools_are_told_in_words():
    source = TEMPLATES["apertus"].replace("{{ tools | tojson }}", "")
    for text in ('{"name": "now", "arguments": {}}', reply(source, CASES["none"])):
        assert calls_of(read(source, text)[0]) == CASES["none"]
    assert read(TEMPLATES["apertus"], text="{}")[0] == [Content("{}")]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_calls_of_real_templates_are_read_back_whole(path):
    source = path.read_text()
    takes = subject_of(source).takes
    if not takes.calls or isinstance(dialect_of(source), Harmony):
        return
    calls = CASES["two" if takes.parallel else "one"]
    text = reply(source, calls)
    head = text.find("{") if not dialect_of(source).form.openings else 0
    assert calls_of(read(source, text[head:])[0]) == calls


@pytest.mark.parametrize("between", ["\n", "<|assistant|>"])
def test_several_calls_are_read_that_begin_with_their_names(between):
    calls = EACH + "{{ '" + between + "' if not loop.first }}{{ f.name }}\ncall(" + FIELDS
    calls += "{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}" + DONE + ")" + DONE
    source, letters = template(calls), Letters(())
    text = reply(source, CASES["two"])
    assert text.startswith("search_all\ncall(code=")
    for cuts in (False, True):
        assert calls_of(read(source, text, cuts)[0]) == CASES["two"]
    rules = grammar(source, letters, required=True)
    assert letters.accepts(rules, text)
    assert not letters.begins(rules, between + text)


HOSTILE = {
    "no closing quote": template(
        EACH
        + "(call){{ f.name }}:"
        + FIELDS
        + "{{ k }}={% if v is string %}<|s|>{{ v }}{% else %}{{ v | tojson }}{% endif %},"
        + DONE
        + "(done)"
        + DONE
    ),
    "no end": template(
        EACH + "tool: {{ f.name }}\n" + FIELDS + "  {{ k }}: {{ v | tojson }}\n" + DONE + DONE
    ),
    "endless": "{% for i in range(10 ** 9) %}{% for j in range(10 ** 9) %}{% endfor %}{% endfor %}",
    "huge": "{{ 'a' * 10 ** 10 }}",
    "large": "{{ messages[0].content * 10 ** 4 }}{{ tools }}",
    "broken": "{% if %}",
    "refusing": "{{ raise_exception('no') }}",
    "refusing calls": template("{{ raise_exception('no') }}"),
    "names in marks": template(
        "{% for c in m.tool_calls %}<{{ c.function.name * 999 }}>{% endfor %}"
    ),
    "repeated keys": template(
        "{% for c in m.tool_calls %}{{ c.function.name }}"
        "{{ 'zqka zqva zqkb ' * 300 }}{{ c.function.arguments }}{% endfor %}"
    ),
    "deep": template(
        "{% for c in m.tool_calls %}{{ '{\"a\":' * 1000 }}{{ c.function.name }}"
        "{{ '{\"a\":' * 300 }}{{ c.function.arguments | tojson }}{% endfor %}"
    ),
    "long marks": template(
        "{% for c in m.tool_calls %}{{ '<|a|>' * 9999 }}{{ c.function.name }}"
        "{{ c.function.arguments | tojson }}{% endfor %}"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_leaves_plain_json_and_takes_little_time(name):
    began = time.monotonic()
    dialect = dialect_of(HOSTILE[name])
    assert time.monotonic() - began < 20
    reader = dialect.reader(TOOLS, "")
    text = '{"name": "now", "arguments": {}}'
    assert [*reader.read(text), *reader.close()] == [Call(0, "now"), Arguments(0, "{}")]
    assert dialect_of(HOSTILE[name]) is dialect
