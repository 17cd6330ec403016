"""A conversation that a template refuses is put in simpler forms, and nothing of it is lost."""

from __future__ import annotations

import pytest

from localspec.base.errors import UsageError
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.interfaces.testing import Alphabet

ONE = {"id": "call12345", "type": "function", "function": {"name": "add", "arguments": "{}"}}
CALL = {"role": "assistant", "content": "", "tool_calls": [ONE]}
RULE, ASK, MORE = (
    {"role": role, "content": text}
    for role, text in (("system", "rule"), ("user", "ask"), ("user", "more"))
)
TELL, RESULT = {"role": "assistant", "content": "tell"}, {"role": "tool", "content": "result"}
LINE = "{{ m.role }}:{{ m.content }}{% if m.tool_calls %}CALL{% endif %};"
# Like those of Mistral: a call has its result, a result an answer, and users and model take turns.
STRICT = """
{%- set ns = namespace(before='') -%}
{%- for m in messages -%}
{%- set after = {'': ['system', 'user'], 'system': ['user'], 'user': ['assistant', 'call'],
    'call': ['tool'], 'tool': ['tool', 'assistant', 'call'], 'assistant': ['user']} -%}
{%- set kind = 'call' if m.tool_calls else m.role -%}
{%- if kind not in after[ns.before] -%}
{{ raise_exception(kind ~ ' after ' ~ ns.before) }}
{%- endif -%}
{%- set ns.before = kind -%}
{{ m.role }}:{{ m.content }}
{%- if m.tool_calls %}CALL {{ m.tool_calls[0].function.name }}{% endif %};
{%- endfor -%}
"""
RETURNED = "user:The function returned: result"
TALKS = {
    "a result, then the user": (
        [ASK, CALL, RESULT, MORE],
        "user:ask;assistant:CALL add;tool:result;assistant:;user:more;",
    ),
    "a result without a call": ([ASK, RESULT, MORE], f"user:ask\n\n{RETURNED[5:]}\n\nmore;"),
    "a call without a result": (
        [ASK, CALL, MORE],
        'user:ask;assistant:{"name": "add", "arguments": {}};user:more;',
    ),
    "the model first": ([TELL, ASK], "user:;assistant:tell;user:ask;"),
    "the model first after a rule": (
        [RULE, TELL, ASK],
        "system:rule;user:;assistant:tell;user:ask;",
    ),
    "a rule alone": ([RULE], "system:rule;"),
    "the user twice": ([ASK, MORE], "user:ask\n\nmore;"),
    "a rule in the middle": ([ASK, TELL, RULE, MORE], "user:ask;assistant:tell;user:rule\n\nmore;"),
}


def rendered(source, messages):
    tokenizer = Alphabet([b"", b""], ends=[1])
    tokenizer.chat_template = source
    return ChatTemplate(tokenizer).render(messages)


@pytest.mark.parametrize("name", TALKS)
def test_a_template_that_wants_turns_gets_them(name):
    messages, written = TALKS[name]
    assert rendered(STRICT, messages) == written


def test_a_rule_alone_is_the_users_where_a_template_would_drop_it():
    first = "{% set rule = messages[0].content if messages[0].role == 'system' else '' %}"
    users = "{% for m in messages if m.role == 'user' %}[{{ rule }}{{ m.content }}]{% endfor %}"
    assert rendered(first + users, [RULE, ASK]) == "[ruleask]"
    assert rendered(first + users, [RULE]) == "[rule]"


def test_a_rule_alone_is_followed_by_silence_where_a_template_wants_a_user():
    wants = "{% if tools and messages | length < 2 %}{{ raise_exception('no user') }}{% endif %}"
    tokenizer = Alphabet([b"", b""], ends=[1])
    tokenizer.chat_template = wants + "{% for m in messages %}" + LINE + "{% endfor %}"
    tool = {"type": "function", "function": {"name": "add"}}
    assert ChatTemplate(tokenizer).render([RULE], [tool]).endswith("system:rule;user:;")


def test_what_a_template_takes_is_not_made_simpler():
    source = "{% for m in messages %}" + LINE + "{% endfor %}"
    messages = [TELL, RULE, RESULT, ASK, MORE]
    written = "assistant:tell;system:rule;tool:result;user:ask;user:more;"
    assert rendered(source, messages) == written


def test_calls_are_put_in_words_where_nothing_else_is_taken():
    calls = "{% if m.tool_calls and loop.index > 2 %}{{ raise_exception('no calls') }}{% endif %}"
    source = "{% for m in messages %}" + calls + LINE + "{% endfor %}"
    written = rendered(source, [RULE, ASK, CALL, RESULT])
    assert written.startswith('system:rule;user:ask;assistant:{"name": "add"')
    assert written.endswith(f"{RETURNED};")


def test_a_template_that_refuses_all_forms_says_why_it_refused_the_first():
    source = "{{ raise_exception('I refuse ' ~ messages | length) }}"
    with pytest.raises(UsageError, match="refused: I refuse 1"):
        rendered(source, [TELL])
