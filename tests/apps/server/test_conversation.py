"""One conversation, in the words of each API, is read as the same messages by all."""

from __future__ import annotations

import json
from itertools import product

import pytest

from localspec.apps.server.anthropic.request import CountRequest
from localspec.apps.server.conversation.entries import Call, Result, Speech, Thought
from localspec.apps.server.conversation.items import groups
from localspec.apps.server.conversation.messages import Message
from localspec.apps.server.conversation.transcript import messages_of
from localspec.apps.server.ollama.request import OllamaChatRequest, paired
from localspec.apps.server.openai.responses_request import ResponsesRequest
from localspec.apps.server.requests.chat_request import ChatRequest

PICTURE = "data:image/png;base64,AAAA"
FUNCTION = {"name": "look", "arguments": '{"at": "x"}'}
CALL = {"id": "c1", "type": "function", "function": FUNCTION}
SEEN = {"type": "image_url", "image_url": {"url": PICTURE}}
SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
FORMS = {
    "chat": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What?"}, SEEN]},
        {"role": "assistant", "content": "I look.", "reasoning": "Hm.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "name": "look", "content": [SEEN]},
        {"role": "user", "content": "And?"},
    ],
    "items": [
        {"type": "message", "role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What?"},
                {"type": "input_image", "image_url": PICTURE},
            ],
        },
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
        },
        {"type": "function_call", "call_id": "c1", **FUNCTION},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "name": "look",
            "output": [{"type": "input_image", "image_url": PICTURE}],
        },
        {"role": "user", "content": "And?"},
    ],
    "blocks": [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": [{"type": "text", "text": "What?"}, SHOT]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [SHOT]},
                {"type": "text", "text": "And?"},
            ],
        },
    ],
}
PARTS = [{"type": "text", "text": "What?"}, {"type": "image"}]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": PARTS},
    {
        "role": "assistant",
        "reasoning_content": "Hm.",
        "content": "I look.",
        "tool_calls": [CALL | {"function": {"name": "look", "arguments": {"at": "x"}}}],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "look", "content": [{"type": "image"}]},
    {"role": "user", "content": "And?"},
]
APIS = {
    "chat": ChatRequest,
    "responses": ResponsesRequest,
    "messages": CountRequest,
    "ollama": OllamaChatRequest,
}


def read(api, form):
    """Return the messages for the template, with names of results and arguments as objects."""
    request = APIS[api].model_validate({"model": "m", "messages": FORMS[form]})
    assert not list(request.ignored())
    if api == "responses":
        pictures = request.references_among(request.input)
        messages = request.as_conversation(request.input, ()).messages
    elif api == "ollama":
        pictures = request.references()
        messages = messages_of(paired(groups(request.messages)))
    else:
        pictures, messages = request.references(), request.conversation(()).messages
    assert [picture.text for picture in pictures] == [PICTURE] * 2
    return [plain(message) for message in messages]


def plain(message):
    if message["role"] == "tool":
        return {"name": "look", **message}
    calls = [
        call | {"function": {"name": "look", "arguments": as_object(call["function"]["arguments"])}}
        for call in message.get("tool_calls", ())
    ]
    return {**message, **({"tool_calls": calls} if calls else {})}


def as_object(arguments):
    return json.loads(arguments) if isinstance(arguments, str) else arguments


READ = [  # messages refuse the role of tools, Ollama has no items
    *product(("chat", "responses"), FORMS),
    ("messages", "blocks"),
    *product(["ollama"], ("chat", "blocks")),
]


@pytest.mark.parametrize(("api", "form"), READ)
def test_a_conversation_is_the_same_in_the_words_of_each_api(api, form):
    assert read(api, form) == MESSAGES


@pytest.mark.parametrize("request_of", [ChatRequest, ResponsesRequest])
def test_messages_in_a_row_stay_apart_and_items_are_joined(request_of):
    def read(*listed):
        request = request_of(messages=list(listed))
        given = {"items": request.input} if request_of is ResponsesRequest else {}
        asked = request.as_conversation if given else request.conversation
        return asked(media=(), **given).messages

    said = {"role": "assistant", "content": "a"}
    item = {"type": "function_call", "call_id": "c1", **FUNCTION}
    assert read(said, {"role": "assistant", "tool_calls": [CALL]}) == [
        said,
        {"role": "assistant", "tool_calls": [CALL]},
    ]
    assert read(said, item, item) == [{**said, "tool_calls": [CALL, CALL]}]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text", "thinking"])
def test_a_thought_has_many_names(name):
    message = Message.model_validate({"role": "assistant", "content": "a", name: "t"})
    assert list(message.entries()) == [Thought("t"), Speech("assistant", ["a"])]


@pytest.mark.parametrize("name", ["thinking_blocks", "reasoning_details"])
def test_thoughts_in_pieces_are_joined(name):
    listed = [{"thinking": "a"}, {"text": "b"}, {"summary": "c"}, "d"]
    message = Message.model_validate({"role": "assistant", "content": "a", name: listed})
    assert list(message.entries()) == [Thought("abcd"), Speech("assistant", ["a"])]


def test_what_is_said_around_results_keeps_its_place():
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}
    content = [{"type": "text", "text": "a"}, result, {"type": "text", "text": "b"}]
    message = Message.model_validate({"role": "user", "content": content})
    assert list(message.entries()) == [
        Speech("user", ["a"]),
        Result("c1", ["Error: no"]),
        Speech("user", ["b"]),
    ]


def test_a_result_is_named_by_its_call_where_names_are_asked_for():
    entries = [[Call("c1", "look", "{}", "space"), Result("c1", ["x"])]]
    [call, result] = messages_of(entries, {("space", "look"): "space.look"})
    assert call["tool_calls"][0]["function"]["name"] == result["name"] == "space.look"
    assert "name" not in messages_of(entries)[1]
