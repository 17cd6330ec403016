"""Templates that write calls only beside tools, or ask each reply for its reasoning."""

from __future__ import annotations

from localspec.formats.dialects.probe import Untokenized
from localspec.formats.templates.chat_template import ChatTemplate
from localspec.formats.templates.tools_in_words import add_instructions

TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
CALL = {"id": "call00000", "type": "function", "function": {"name": "find", "arguments": {"k": 1}}}
TALK = [
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call00000", "content": "Here."},
]
CALLS = "{% for c in m.tool_calls %}<call>{{ c.function.name }}{{ c.function.arguments | tojson }}"
CALLS += "</call>{% endfor %}"
ONLY_TOLD = (
    "{{ tools | tojson if tools }}{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% if tools and m.tool_calls %}" + CALLS + "{% endif %}\n{% endfor %}"
)
THINKING = (
    "{{ tools | tojson if tools }}{% for m in messages %}{{ m.role }}: "
    "{% if m.role == 'assistant' %}{% if m.reasoning_content is string %}"
    "<think>{{ m.reasoning_content }}</think>{% else %}{{ raise_exception('no thought') }}"
    "{% endif %}{% endif %}{{ m.content }}"
    "{% if m.tool_calls %}" + CALLS + "{% endif %}|{% endfor %}"
)


def written(source, messages, tools):
    subject = ChatTemplate(Untokenized(source))
    put, tools_left = add_instructions(messages, tools, subject.takes)
    return subject.render(put, tools_left)


def test_calls_are_shown_where_a_template_writes_them_beside_tools_only():
    assert '<call>find{"k": 1}</call>' in written(ONLY_TOLD, TALK, [TOOL])
    assert '{"name": "find", "arguments": {"k": 1}}' in written(ONLY_TOLD, TALK, [])
    takes = ChatTemplate(Untokenized(ONLY_TOLD)).takes
    assert takes.calls
    assert not takes.calls_without_tools
    assert ChatTemplate(Untokenized(THINKING)).takes.calls_without_tools


def test_replies_without_reasoning_reach_a_template_that_asks_for_it():
    for tools in ([], [TOOL]):
        prompt = written(THINKING, TALK, tools)
        assert '<think></think><call>find{"k": 1}</call>' in prompt
    talk = [TALK[0], {"role": "assistant", "content": "Here.", "reasoning_content": "Hm"}, TALK[0]]
    assert "assistant: <think>Hm</think>Here.|" in written(THINKING, talk, [])
    assert not ChatTemplate(Untokenized(THINKING)).takes.replies_without_reasoning
    assert ChatTemplate(Untokenized(ONLY_TOLD)).takes.replies_without_reasoning
