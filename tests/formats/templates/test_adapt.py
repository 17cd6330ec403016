"""A conversation is put in the forms that a template reads, and stays as it came otherwise."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from localspec.base.errors import UsageError
from localspec.formats.templates.adapt import conversation
from localspec.formats.templates.capabilities import Takes

ALL = Takes()
NO_SYSTEM = Takes(system=False, systems=False)
ONE_SYSTEM = Takes(systems=False)


def says(role, content, **more):
    return {"role": role, "content": content, **more}


def parts(*texts):
    return [{"type": "text", "text": text} for text in texts]


def call(name, given, identity="call_1"):
    return {
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": given},
    }


def result(content, identity="call_1"):
    return {"role": "tool", "tool_call_id": identity, "content": content}


CALLED = {"role": "assistant", "content": None, "tool_calls": [call("add", '{"a": 1}')]}


def given(message):
    return message["tool_calls"][0]["function"]["arguments"]


def test_what_a_template_takes_stays_as_it_came():
    came = [
        says("system", "Be brief."),
        says("developer", "Be kind."),
        says("user", parts("Hello", "there")),
        says("user", "and again"),
        says("system", "Be quick."),
        {"role": "assistant", "tool_calls": [call("add", '{"a":1}'), call("add", {}, "call_2")]},
        result(parts("2")),
        result("3", "call_2"),
    ]
    assert conversation(came, ALL) == came


def test_a_conversation_that_came_is_not_changed():
    came = [says("system", "s"), CALLED, result("x"), says("user", parts("u"))]
    before = json.dumps(came)
    nothing = replace(NO_SYSTEM, parts=False, written=False, ids=False, parallel=False)
    assert conversation(came, nothing) != came
    assert json.dumps(came) == before


def test_fields_without_value_are_left_out():
    [turn] = conversation([says("user", "u", name=None, tool_calls=[])], ALL)
    assert turn == says("user", "u")


@pytest.mark.parametrize("role", ["user", "assistant", "tool"])
def test_a_message_without_content_and_calls_says_nothing(role):
    assert conversation([says(role, None)], ALL) == [says(role, "")]
    assert conversation([{"role": role}], ALL) == [says(role, "")]


@pytest.mark.parametrize(
    ("absent", "content"),
    [("left out", {}), ("none", {"content": None}), ("empty", {"content": ""})],
)
@pytest.mark.parametrize("came", [{}, {"content": None}, {"content": ""}])
def test_a_call_without_content_is_put_as_the_template_wants_it(absent, content, came):
    calls = {"tool_calls": [call("add", {})]}
    [turn] = conversation([{"role": "assistant", **came, **calls}], Takes(absent=absent))
    assert turn == {"role": "assistant", **content, **calls}


def test_a_call_that_a_template_drops_leaves_an_empty_message():
    [turn] = conversation([CALLED], Takes(calls=False))
    assert turn["content"] == ""


@pytest.mark.parametrize(
    ("takes", "came", "expected"),
    [
        (ALL, '{"a":1}', '{"a":1}'),
        (ALL, {"a": 1}, {"a": 1}),
        (Takes(written=False), '{"a":1}', {"a": 1}),
        (Takes(written=False), {"a": 1}, {"a": 1}),
        (Takes(written=False), "", {}),
        (Takes(written=False), None, {}),
        (Takes(written=False), "[1]", {"arguments": "[1]"}),
        (Takes(written=False), [1], {"arguments": "[1]"}),
        (Takes(written=False), "so", {"arguments": "so"}),
        (Takes(written=False), '{"a":', {}),
        (Takes(written=False), '{"a": "x", "b": {"c": ["y', {"a": "x", "b": {"c": ["y"]}}),
        (Takes(written=False), '{"a":' * 100_000, {"arguments": '{"a":' * 100_000}),
        (ALL, '{"a": "x', '{"a": "x'),
        (ALL, "", "{}"),
        (ALL, None, "{}"),
        (Takes(objects=False), {"ä": 1}, '{"ä": 1}'),
        (Takes(objects=False), '{"a":1}', '{"a":1}'),
    ],
)
def test_arguments_come_as_the_template_writes_them_once(takes, came, expected):
    [turn] = conversation([{**CALLED, "tool_calls": [call("add", came)]}], takes)
    assert given(turn) == expected


def test_texts_in_parts_become_one_where_a_template_knows_no_parts():
    assert conversation([says("user", parts("a", "b"))], Takes(parts=False)) == [says("user", "ab")]
    assert conversation([says("user", "a")], Takes(text=False)) == [says("user", parts("a"))]


@pytest.mark.parametrize("takes", [ALL, Takes(parts=False)])
def test_a_part_that_is_no_text_is_refused_by_its_type(takes):
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    with pytest.raises(UsageError, match="image_url"):
        conversation([says("user", [*parts("a"), image])], takes)
    with pytest.raises(UsageError, match="no text"):
        conversation([says("user", [5])], takes)


def test_a_developer_is_the_system_where_a_template_knows_none():
    came = [says("developer", "Be brief."), says("user", "u")]
    assert conversation(came, Takes(developer=False)) == [says("system", "Be brief."), came[1]]


def test_system_messages_go_into_the_user_message_after_them():
    came = [says("system", "one"), says("system", "two"), says("user", "u"), says("assistant", "a")]
    later = [says("system", "three"), says("user", "v"), says("system", "four")]
    assert conversation([*came, *later], NO_SYSTEM) == [
        says("user", "one\n\ntwo\n\nu"),
        says("assistant", "a"),
        says("user", "three\n\nv"),
        says("user", "four"),
    ]
    assert conversation([*came, *later], ONE_SYSTEM) == [
        says("system", "one\n\ntwo"),
        says("user", "u"),
        says("assistant", "a"),
        says("user", "three\n\nv"),
        says("user", "four"),
    ]


@pytest.mark.parametrize("first", ["system", "developer"])
def test_messages_of_developers_are_rules_too_where_a_template_takes_one_message_of_them(first):
    """The template of gpt-oss leaves out a message of a developer that is not the first."""
    later = [says("assistant", "hello"), says("developer", "c"), says("user", "more")]
    talk = [says(first, "a"), says("developer", "b"), says("user", "hi"), *later]
    assert conversation(talk, ONE_SYSTEM) == [
        says(first, "a\n\nb"),
        says("user", "hi"),
        says("assistant", "hello"),
        says("user", "c\n\nmore"),
    ]
    assert conversation(talk, ALL) == talk


def test_a_developer_stays_where_a_template_takes_no_system_message():
    talk = [says("developer", "a"), says("user", "hi")]
    assert conversation(talk, NO_SYSTEM) == talk


def test_a_system_message_before_a_reply_stands_alone():
    came = [says("system", "rule"), says("assistant", "a")]
    assert conversation(came, NO_SYSTEM) == [says("user", "rule"), says("assistant", "a")]
    assert conversation(came, ONE_SYSTEM) == came
    assert conversation(came[:1], ONE_SYSTEM) == came[:1]


def test_an_empty_system_message_adds_nothing_to_the_users():
    came = [says("system", ""), says("user", "u")]
    assert conversation(came, NO_SYSTEM) == [says("user", "u")]


def test_messages_in_a_row_become_one_where_roles_have_to_alternate():
    came = [
        says("user", "a"),
        says("user", parts("b")),
        CALLED,
        result("x"),
        result("y"),
        says("assistant", "c"),
        says("assistant", "d"),
    ]
    turns = conversation(came, Takes(repeats=False))
    assert [each.get("content") for each in turns] == ["a\n\nb", None, "x", "y", "c\n\nd"]
    assert conversation(came[:1], Takes(repeats=False)) == came[:1]


def test_several_calls_at_once_become_one_after_the_other_each_with_its_result():
    both = [call("add", {}, "1"), call("sub", {}, "2")]
    came = [
        says("user", "u"),
        says("assistant", "I look.", tool_calls=both),
        result("minus", "2"),
        result("plus", "1"),
        result("what", "3"),
        says("user", "v"),
    ]
    assert conversation(came, Takes(parallel=False)) == [
        says("user", "u"),
        says("assistant", "I look.", tool_calls=both[:1]),
        result("plus", "1"),
        {"role": "assistant", "tool_calls": both[1:]},
        result("minus", "2"),
        result("what", "3"),
        says("user", "v"),
    ]


def test_results_without_identifier_belong_to_the_calls_in_their_order():
    came = [
        {"role": "assistant", "tool_calls": [call("add", {}, "1"), call("sub", {}, "2")]},
        says("tool", "plus"),
        says("tool", "minus"),
    ]
    turns = conversation(came, Takes(parallel=False))
    assert [each.get("content") for each in turns] == [None, "plus", None, "minus"]


def test_identifiers_are_shortened_alike_in_calls_and_results():
    came = [CALLED, result("x"), {**CALLED, "tool_calls": [call("add", {}, "aB3456789")]}]
    made, answered, kept = conversation(came, Takes(ids=False))
    short = made["tool_calls"][0]["id"]
    assert len(short) == 9
    assert short.isalnum()
    assert answered["tool_call_id"] == short
    assert kept["tool_calls"][0]["id"] == "aB3456789"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content", "thinking"])
def test_what_a_model_thought_has_every_name_by_which_templates_know_it(name):
    [turn] = conversation([says("assistant", "a", **{name: "hm"})], ALL)
    assert turn["thinking"] == turn["reasoning_content"] == "hm"


def test_thoughts_and_words_beside_a_call_become_one_where_only_one_is_taken():
    came = {**CALLED, "content": "I add.", "reasoning_content": "hm"}
    [turn] = conversation([came], Takes(reasoning_beside_calls=False))
    assert turn["thinking"] == turn["reasoning_content"] == "hm\n\nI add."
    assert "content" not in turn
    [kept] = conversation([{**CALLED, "content": "I add."}], Takes(reasoning_beside_calls=False))
    assert kept["content"] == "I add."


@pytest.mark.parametrize("calls", [5, "x", [5], [{}], [{"function": 5}], [{"id": []}]])
def test_calls_that_are_none_are_left_for_the_template_to_refuse(calls):
    nothing = Takes(parts=False, written=False, ids=False, parallel=False)
    [turn] = conversation([{"role": "assistant", "tool_calls": calls}], nothing)
    assert turn["tool_calls"] == calls
