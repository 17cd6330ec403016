"""Tools in words, where a chat template has none for them."""

from __future__ import annotations

from dataclasses import replace

from localspec.formats.templates.capabilities import Takes
from localspec.formats.templates.tools_in_words import add_instructions

TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
TALK = [
    {"role": "user", "content": "1 + 1?"},
    {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "1", "content": "2"},
]


def test_a_template_that_knows_tools_is_left_alone():
    assert add_instructions(TALK, [TOOL], Takes()) == (TALK, [TOOL])


def test_a_template_without_tools_is_told_of_them_first():
    messages, tools = add_instructions(TALK, [TOOL], replace(Takes(), tools=False))
    assert tools == ()
    assert messages[0]["role"] == "system"
    assert '{"name": "add", "parameters": {"type": "object"}}' in messages[0]["content"]
    assert messages[1:] == TALK
    assert add_instructions(TALK, [], replace(Takes(), tools=False)) == (TALK, [])


def test_calls_and_results_become_words_where_there_is_no_form_for_them():
    messages, _ = add_instructions(TALK, [TOOL], replace(Takes(), calls=False))
    assert messages[1:] == [
        {"role": "assistant", "content": 'Let me see.\n{"name": "add", "arguments": {"a": 1}}'},
        {"role": "user", "content": "The function returned: 2"},
    ]
