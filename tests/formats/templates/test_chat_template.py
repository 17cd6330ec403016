"""Chat templates write what the hub's own library writes, and never more than they may take."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import psutil
import pytest

from localspec.base.errors import ModelFileError, UsageError
from localspec.formats.templates.adapt import conversation
from localspec.formats.templates.capabilities import Takes
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.formats.templates.renderer import Meter, Renderer
from localspec.interfaces.testing import Alphabet
from tests.waiting import until

REAL = sorted((Path(__file__).parents[4] / "shared/data/templates").glob("*.jinja"))
HUB = importlib.util.find_spec("transformers") is not None  # as it is where MLX is
LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def calling(given, identity="call12345", content=None):
    function = {"name": "add", "arguments": given}
    calls = [{"id": identity, "type": "function", "function": function}]
    return says("assistant", content, tool_calls=calls)


ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": 'Adds <two> numbers & says "how" über.',
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "number", "description": "one"},
                "b": {"type": ["number", "string"], "description": "other", "default": 1},
                "how": {"type": "string", "enum": ["fast", "slow"], "description": "it's so"},
            },
            "required": ["a"],
        },
    },
}
NONE_NEEDED = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "Tells the time.",
        "parameters": {"type": "object", "properties": {}},
    },
}
RESULT = says("tool", '{"sum": 3, "note": "é"}', name="add", tool_call_id="call12345")
ASKED = says("user", "  What is 1 + 2 <b>?\n")
TALK = [ASKED, says("assistant", " 3 \n"), says("user", "Und 2 + 3? 你好 👋🏽")]
GIVEN = {"a": 1, "b": {"x": ["é", None, True]}}
CALLS = [ASKED, calling(GIVEN), RESULT, says("assistant", "It is 3."), says("user", "Thanks")]
TALKS = {
    "a question": [ASKED],
    "a talk": TALK,
    "a rule": [says("system", "Be brief."), *TALK],
    "an empty rule": [says("system", ""), ASKED],
    "calls": CALLS,
    "calls with words": [ASKED, calling(GIVEN, content="I add."), RESULT],
    "calls as text": [ASKED, calling('{"a":1}'), RESULT],
    "two calls": [
        ASKED,
        {**calling(GIVEN), "tool_calls": calling(GIVEN)["tool_calls"] * 2},
        RESULT,
        RESULT,
    ],
    "thoughts": [ASKED, says("assistant", "3", reasoning_content="1 and 2"), TALK[2]],
    "thoughts in a call": [ASKED, {**calling(GIVEN), "reasoning": "I need a tool"}, RESULT],
    "thoughts in tags": [ASKED, says("assistant", "<think>\nhm\n</think>\n\n3"), TALK[2]],
    "parts": [says("user", [{"type": "text", "text": "a"}]), says("assistant", "b"), ASKED],
    "nothing said": [ASKED, says("assistant", None), ASKED],
    "questions in a row": [ASKED, ASKED],
    "a late rule": [*TALK[:2], says("system", "Be kind."), ASKED],
    "a reply first": [says("assistant", "Hi"), ASKED],
    "an unknown role": [ASKED, says("critic", "hm")],
}
ORDINARY = ("a question", "a talk", "calls with words", "a reply first", "an unknown role")


class Vocabulary(Alphabet):
    def token_text(self, token):
        return ["<s>", "</s>"][token]


def worded(source):
    tokenizer = Vocabulary([b"", b""], ends=[1])
    tokenizer.bos = 0
    tokenizer.chat_template = source
    return tokenizer


def template(source):
    return ChatTemplate(worded(source))


@pytest.fixture(scope="module")
def quick():
    """Quick to lose its patience."""
    return Renderer(seconds=0.3, memory_bytes=1 << 27)


def rendered(source, messages=(ASKED,), *given, **more):
    return template(source).render(messages, *given, **more)


def outcome(write, *refusals):
    """What was written, or that it was refused."""
    try:
        return write()
    except refusals:
        return None


def reference(source, messages, tools=None, **extra):
    """What the hub's own library writes."""
    import jinja2
    from transformers.utils.chat_template_utils import render_jinja_template

    wishes = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **extra}

    def write():
        return render_jinja_template([messages], tools, chat_template=source, **wishes)[0][0]

    return outcome(write, jinja2.TemplateError, TypeError, ValueError, LookupError, RecursionError)


# Each shows conventions that templates rely on, and what has to be written.
CONVENTIONS = {
    "{{ tools|tojson }}": json.dumps([ADD], ensure_ascii=False),
    "{{ tools[0].function.description|tojson(true) }}": json.dumps(ADD["function"]["description"]),
    "{{ {'b': '<é>', 'a': [1, none]}|tojson }}": '{"b": "<é>", "a": [1, null]}',
    "{{ {'b': 1, 'a': 2}|tojson(indent=2, sort_keys=true) }}": '{\n  "a": 2,\n  "b": 1\n}',
    "{{ {'b': 1, 'a': 2}|tojson(separators=(',', ':')) }}": '{"b":1,"a":2}',
    "{{ 'é'|tojson(ensure_ascii=true) }}": '"\\u00e9"',
    "{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}": "<s>|</s>|False",
    "{{ documents is none }} {{ tools is none }} {{ add_generation_prompt }}": "True False True",
    "{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}": "012",
    "{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}": "02",
    "  {% if true %}\n  a\n  {% endif %}\nb": "  a\nb",
    "{% set x = 1 %}{% generation %}{% set x = 2 %}<{{ x }}>{% endgeneration %}{{ x }}": "<2>1",
    "{%- generation -%} a {%- endgeneration -%} b": "ab",
    "{% set n = namespace(a=1, self=2) %}{% set n.b = 3 %}{{ n.a }}{{ n.self }}{{ n.b }}": "123",
    "{{ namespace({'a': 4}).a }}{{ dict(a=5).a }}": "45",
    "{% set n = namespace(_a=1) %}": None,
    "{% set n = namespace() %}{% set n.__call__ = 1 %}": None,
    "{{ messages[0].content|trim }} & {{ nothing }}": "What is 1 + 2 <b>? & ",
    "{{ messages[0].items()|list|length }}{{ messages[0]|items|list|length }}": "22",
    "{{ '%s and %r' % (1, 'b') }} {{ '{:>3}'.format(1) }}": "1 and 'b'   1",
    "{{ strftime_now('%%') }}": "%",
    "{{ raise_exception('No <such> role') }}": None,
    "{{ nothing + 'a' }}": None,
    "{{ nothing.at_all }}": None,
    "{{ messages.append(1) }}": None,
    "{{ messages.__class__ }}{{ ''|attr('__class__') }}": "",
    "{{ ''.__class__.__mro__ }}": None,
    "{% include 'a' %}": None,
}


@pytest.mark.parametrize("source", CONVENTIONS)
def test_a_template_finds_what_the_hub_promises_it(source):
    wrote = outcome(lambda: rendered(source, [ASKED], [ADD]), UsageError)
    assert wrote == CONVENTIONS[source]
    if HUB:
        assert reference(source, [ASKED], [ADD]) == wrote


def test_a_template_may_change_only_what_it_made_itself():
    made = "{% set n = namespace(a=[], b={}) %}{% set _ = n.a.append(1), n.b.update(k=2) %}"
    assert rendered(made + "{{ n.a.pop() }}{{ n.b.k }}{{ n.a|length }}", [ASKED]) == "120"
    for given in ("messages[0].update(a=1)", "tools[0].function.pop('name')", "tools.extend([1])"):
        with pytest.raises(UsageError, match="unsafe"):
            rendered(f"{{{{ {given} }}}}", [ASKED], [ADD])


def test_arguments_that_a_template_would_write_as_python_has_them_come_as_json():
    source = "{% for m in messages %}{{ m.role }}{{ m.content }}{% for c in m.tool_calls %}"
    source += "{{ c.function.name }}{{ c.function.arguments }}{% endfor %}{% endfor %}"
    assert '{"a": 1, "b": {"x": ["é", null, true]}}' in rendered(source, CALLS)


def test_extra_variables_reach_the_template_and_take_no_other_place():
    source = "{{ tools is none }} {{ thinking }} {{ documents[0].text }} {{ bos_token }}"
    extra = {"thinking": False, "documents": [{"text": "d"}], "bos_token": "<b>", "messages": []}
    assert rendered(source + "{{ messages|length }}", [ASKED], (), extra) == "True False d <b>1"


def test_the_time_is_now():
    before = time.time()
    assert before - 1 <= int(rendered("{{ strftime_now('%s') }}")) <= time.time()


def test_a_conversation_without_messages_is_refused():
    with pytest.raises(UsageError, match="needs a message"):
        rendered("{{ messages }}", [])


def test_a_template_refuses_in_its_own_words():
    with pytest.raises(UsageError, match=r"template refused: No <such> role$"):
        rendered("{{ raise_exception('No <such>\n role') }}")
    with pytest.raises(UsageError, match="template failed: division by zero"):
        rendered("{{ 1 / n }}", extra={"n": 0})


# Templates of our own, each with a temper that real ones have.
PLAIN = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
JOINED = "{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}"
PARTS = """
{%- for m in messages %}[{{ m.role }}]
{%- if m.content is string %}{{ m.content }}
{%- else %}{% for part in m.content %}{{ part.text }}{% endfor %}{% endif %}
{%- for call in m.tool_calls %}({{ call.function|tojson }}){% endfor %}
{%- endfor %}"""
ONLY_PARTS = """
{%- for m in messages %}[{{ m.role }}]
{%- for part in m.content %}{{ part.text }}{% endfor %}
{%- endfor %}"""
ALTERNATING = """
{%- for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('alternate') }}{% endif %}
{{- '[' + m.role + ']' + m.content }}
{%- endfor %}"""
RULED = """
{%- set rule = messages[0].content if messages[0].role == 'system' else 'none' %}
{{- rule }}{% for m in messages if m.role != 'system' %}[{{ m.role }}]{{ m.content }}{% endfor %}"""
DEVELOPED = """
{%- for m in messages %}[{{ 'rule' if m.role == "developer" else m.role }}]
{{- m.content }}{% endfor %}"""
TOOLS = """
{%- for tool in tools or [] %}<{{ tool.function.name }}>{% endfor %}
{%- for m in messages %}[{{ m.role }}]{{ m.content }}
{%- for call in m.tool_calls %}
{%- if call.id|length != 9 %}{{ raise_exception('nine') }}{% endif %}
{{- call.function.name + call.function.arguments }}
{%- endfor %}{% endfor %}"""
SINGLE = """
{%- for m in messages %}[{{ m.role }}]
{%- if m.tool_calls %}
{%- if m.content and m.thinking %}{{ raise_exception('one') }}{% endif %}
{%- if m.content is not none %}{{ m.content + '' }}{% endif %}
{{- m.tool_calls[0].function.name }}
{%- for name, value in m.tool_calls[0].function.arguments|items %}{{ name }}={{ value }}{% endfor %}
{%- else %}{{ m.content }}{% endif %}{% endfor %}"""
LONELY = "{{ raise_exception('one') if messages[1] else '' + messages[0].content }}"
NEEDING_TOOLS = "{{ tools|length }}" + PARTS

NO_CALLS = {"calls": False, "tools": False, "developer": False}
TEMPERS = {
    PLAIN: Takes(**NO_CALLS, parts=False),
    JOINED: Takes(**NO_CALLS, parts=False),
    PARTS: Takes(tools=False, developer=False, written=False),
    ONLY_PARTS: Takes(**NO_CALLS, text=False),
    ALTERNATING: Takes(
        **NO_CALLS, parts=False, system=False, systems=False, alone=False, repeats=False
    ),
    RULED: Takes(**NO_CALLS, parts=False, systems=False),
    DEVELOPED: Takes(tools=False, calls=False, parts=False),
    TOOLS: Takes(developer=False, parts=False, objects=False, ids=False),
    SINGLE: Takes(
        tools=False,
        developer=False,
        parts=False,
        written=False,
        parallel=False,
        reasoning_beside_calls=False,
        absent="none",
    ),
    LONELY: Takes(**NO_CALLS, parts=False, system=False, systems=False, repeats=False),
    NEEDING_TOOLS: Takes(tools=False, developer=False, written=False),
    "the same whatever is asked": Takes(),
    "{{ raise_exception('never') }}": Takes(),
}


@pytest.mark.parametrize("source", TEMPERS)
def test_what_a_template_takes_is_found_out(source):
    assert template(source).takes == TEMPERS[source]


def test_a_conversation_reaches_each_template_whole():
    talk = [says("developer", "Rule."), ASKED, says("user", [{"type": "text", "text": "More."}])]
    for source in (PLAIN, JOINED, PARTS, ONLY_PARTS, ALTERNATING, RULED, DEVELOPED, TOOLS, SINGLE):
        wrote = rendered(source, talk)
        assert wrote.index("Rule.") < wrote.index("1 + 2") < wrote.index("More.")


def test_calls_reach_each_template_that_knows_calls():
    calls = [ASKED, calling('{"a": "one"}', "call_abcdefghijk"), {**RESULT, "content": "three"}]
    for source in (PARTS, TOOLS, SINGLE):
        wrote = rendered(source, calls)
        assert wrote.index("1 + 2") < wrote.index("add") < wrote.index("one") < wrote.index("three")
        assert "\\" not in wrote


@pytest.mark.parametrize("source", [*TEMPERS, *REAL])
def test_a_talk_is_written_as_the_hubs_own_library_does(source):
    text = source if isinstance(source, str) else source.read_text(encoding="utf-8")
    subject = template(text)
    for (name, messages), tools in product(TALKS.items(), ((), (ADD, NONE_NEEDED))):
        written = partial(subject.written, messages, tools, {}, asking=True)
        wrote = outcome(written, UsageError)
        assert wrote is None or wrote == subject.render(messages, tools)
        put = conversation(messages, subject.takes)
        if HUB:
            right = reference(text, put, list(tools) or None)
            if right is None and not tools:  # some want a list of none
                right = reference(text, put, [])
            assert wrote == right, name
        if name in ORDINARY and subject.takes.text and subject.takes.objects:
            assert put == messages, name


def test_a_final_reply_is_continued_without_an_end():
    ended = "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</>{% endfor %}"
    prompt = "{% if add_generation_prompt %}<assistant>{% endif %}"
    talk = [ASKED, says("assistant", "It is ")]
    whole = "<user>What is 1 + 2 <b>?</><assistant>It is"
    assert rendered(ended + prompt, talk, continued=True) == whole
    assert rendered(ended.replace("|trim", ""), talk, continued=True).endswith("<assistant>It is ")
    assert rendered(ended, [*talk[:1], says("assistant", None)], continued=True).endswith("ant>")


def test_what_cannot_be_continued_is_refused():
    with pytest.raises(UsageError, match="not the assistant's"):
        rendered(PLAIN, [ASKED], continued=True)
    with pytest.raises(UsageError, match="drops"):
        rendered("{{ messages[0].content }}", [ASKED, says("assistant", "It")], continued=True)
    last = "{{ messages[-1].content.split('>')[-1] }}"
    with pytest.raises(UsageError, match="drops"):
        rendered(last, [ASKED, says("assistant", "<think>hm</think> It")], continued=True)


@pytest.mark.parametrize(
    "source", ["{% for m in messages %}", "{% nothing %}", "{{ '" + "(" * 9000]
)
def test_a_broken_template_is_the_models_fault(source):
    with pytest.raises(ModelFileError, match="chat template is broken"):
        template(source)


BOMBS = (
    LOOP,
    "{{ (n ** (n ** n))|string|length }}",
    "{{ 'a' * n ** n }}",
    "{{ '{:>10000000000}'.format(n) }}",
    "{{ 'a'|center(n ** n) }}{{ 'a'.ljust(n ** n) }}",
    "{{ [1]|batch(n ** n, 'a')|list }}",
    "{% set x = namespace(y='ab') %}{% for i in range(99) %}{% set x.y = x.y ~ x.y %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(k) %}{% if k %}{{ m(k - 1) }}{{ m(k - 1) }}{% endif %}{% endmacro %}{{ m(99) }}",
    "{% set x = namespace(y=[]) %}{% for i in range(999) %}{% set x.y = [x.y] %}{% endfor %}"
    "{{ x.y|tojson }}",
)


@pytest.mark.parametrize("source", BOMBS)
def test_a_template_that_wants_too_much_is_refused_in_time(source, quick):
    subject = ChatTemplate(worded(source), quick)
    with pytest.raises(UsageError, match=r"chat template (failed|needs)"):
        subject.render([ASKED], extra={"n": 10})
    assert subject.worked_seconds < 5


def test_memory_is_bounded_however_long_one_waits():
    renderer = Renderer(seconds=60, memory_bytes=1 << 27)
    source = "{% set x = 'a' * n %}{% for i in range(99999) %}{% endfor %}{{ x|length }}"
    assert renderer.ask(source, {"n": 1 << 24}) == {"text": str(1 << 24)}
    assert "128 MiB" in renderer.ask(source, {"n": 1 << 29})["failed"]


def test_a_text_that_no_model_could_read_is_refused(quick):
    assert "8,388,609 characters" in quick.ask("{{ 'a' * n }}", {"n": (1 << 23) + 1})["failed"]


def test_a_template_that_is_folded_into_too_much_is_broken(quick):
    with pytest.raises(ModelFileError, match="MiB"):
        ChatTemplate(worded("{{ 'a' * 10 ** 10 }}"), quick)


def test_a_template_that_is_lost_takes_nobody_along(quick):
    assert "failed" in quick.ask(LOOP, {})
    assert quick.ask("{{ a }}", {"a": "é\ud800"}) == {"text": "é\ud800"}


def test_messages_nested_too_deeply_are_refused():
    nested = "x"
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(UsageError, match="nested too deeply"):
        rendered("{{ messages|tojson }}", [says("user", "u", more=nested)])


def test_many_threads_may_render_at_once():
    subject = template("{{ messages[0].content * 100 }}")
    with ThreadPoolExecutor(8) as threads:
        wrote = list(threads.map(lambda n: subject.render([says("user", f"{n} ")]), range(200)))
    assert wrote == [f"{n} " * 100 for n in range(200)]


def started(ask):
    """The process that was started while asking."""
    before = psutil.Process().children()
    ask()
    [process] = set(psutil.Process().children()) - set(before)
    return process


def test_a_process_that_was_killed_is_started_again():
    renderer = Renderer()
    process = started(lambda: renderer.ask("", None))
    process.kill()
    psutil.wait_procs([process], 10)
    assert renderer.ask("{{ a }}", {"a": 1}) == {"text": "1"}


@pytest.mark.skipif(sys.platform == "win32", reason="seconds of work are not limited there")
def test_a_template_may_wait_for_a_busy_machine():
    renderer, meter = Renderer(seconds=1.0), Meter()
    process = started(lambda: renderer.ask("", None))
    loop = "{% set x = namespace(n=0) %}{% for i in range(99999) %}{% set x.n = i %}{% endfor %}"
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(renderer.ask, loop + "{{ x.n }}", {}, meter)
        time.sleep(0.03)
        process.suspend()
        time.sleep(1.2)
        process.resume()
        assert asked.result(30) == {"text": "99998"}
    assert 0 < meter.seconds < 1


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts are sent otherwise there")
def test_an_interrupt_from_the_terminal_does_not_end_the_process():
    renderer = Renderer()
    process = started(lambda: renderer.ask("", None))
    process.send_signal(signal.SIGINT)
    assert renderer.ask("{{ a }}", {"a": 1}) == {"text": "1"}
    assert process.is_running()


def test_a_program_that_has_rendered_ends_in_silence():
    program = (
        "from localspec.formats.templates.renderer import SHARED; print(SHARED.ask('{{ 1 }}', {}))"
    )
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{'text': '1'}\n", "")


ABANDONED = """
import os, sys, threading, time, psutil
from localspec.formats.templates.renderer import Meter, Renderer
renderer = Renderer(seconds=0.5)
renderer.ask("", None)
print(psutil.Process().children()[0].pid, flush=True)
threading.Thread(target=renderer.ask, args=(sys.argv[1], {}), daemon=True).start()
time.sleep(0.1)
os._exit(1)
"""


def test_a_process_does_not_outlive_a_program_that_died():
    command = [sys.executable, "-c", ABANDONED, "{{ 9 ** (9 ** 9) }}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    until(lambda: not lives(int(done.stdout)))


def lives(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
