"""One conversation, in the words of each API, is read as the same messages by all."""

from __future__ import annotations

import json
from itertools import product

import pytest

from localspec.apps.server.anthropic.request import CountRequest
from localspec.apps.server.conversation.entries import Call, Result, Speech, Thought, references
from localspec.apps.server.conversation.items import groups
from localspec.apps.server.conversation.messages import Message
from localspec.apps.server.conversation.transcript import messages_of
from localspec.apps.server.ollama.request import OllamaChatRequest, paired
from localspec.apps.server.openai.responses_request import ResponsesRequest
from localspec.apps.server.requests.chat_request import ChatRequest

PICTURE = "data:image/png;base64,AAAA"
FUNCTION = {"name": "look", "arguments": '{"at": "x"}'}
CALL = {"id": "c1", "type": "function", "function": FUNCTION}
ITEM = {"type": "function_call", "call_id": "c1", **FUNCTION}
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "x"}}
SEEN = {"type": "image_url", "image_url": {"url": PICTURE}}
SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
SHOWN = {"type": "input_image", "image_url": PICTURE}


def said(role, *content, **more):
    return {"role": role, "content": list(content), **more}


def text(words, kind="text"):
    return {"type": kind, "text": words}


FORMS = {
    "chat": [
        {"role": "user", "content": [text("What?"), SEEN]},
        {"role": "assistant", "content": "I look.", "reasoning": "Hm.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "name": "look", "content": [SEEN]},
        {"role": "user", "content": "And?"},
    ],
    "items": [
        said("user", text("What?", "input_text"), SHOWN),
        {"type": "reasoning", "content": [text("Hm.", "reasoning_text")]},
        said("assistant", text("I look.", "output_text"), type="message"),
        ITEM,
        {"type": "function_call_output", "call_id": "c1", "name": "look", "output": [SHOWN]},
        said("user", text("And?")),
    ],
    "blocks": [
        said("user", text("What?"), SHOT),
        said("assistant", {"type": "thinking", "thinking": "Hm."}, text("I look."), USE),
        said("user", {"type": "tool_result", "tool_use_id": "c1", "content": [SHOT]}, text("And?")),
    ],
}
MESSAGES = [
    said("user", text("What?"), {"type": "image"}),
    {
        "role": "assistant",
        "reasoning_content": "Hm.",
        "content": "I look.",
        "tool_calls": [CALL | {"function": {"name": "look", "arguments": {"at": "x"}}}],
    },
    said("tool", {"type": "image"}, tool_call_id="c1", name="look"),
    {"role": "user", "content": "And?"},
]
APIS = {
    "chat": lambda request: request.conversation(()).messages,
    "responses": lambda request: request.as_conversation(request.input, ()).messages,
    "messages": lambda request: request.conversation(()).messages,
    "ollama": lambda request: messages_of(paired(groups(request.messages))),
}
REQUESTS = {
    "chat": ChatRequest,
    "responses": ResponsesRequest,
    "messages": CountRequest,
    "ollama": OllamaChatRequest,
}
READ = [  # messages refuse the role of tools, Ollama has no items
    *product(("chat", "responses"), FORMS),
    ("messages", "blocks"),
    *product(["ollama"], ("chat", "blocks")),
]


def read(api, listed):
    request = REQUESTS[api].model_validate({"model": "m", "messages": listed})
    assert not list(request.ignored())
    return APIS[api](request)


def plain(message):
    """Name a result, and read arguments: some APIs do, for others the template's reader does."""
    if message["role"] == "tool":
        return {"name": "look", **message}
    for call in message.get("tool_calls", ()):
        if isinstance(arguments := call["function"]["arguments"], str):
            call["function"]["arguments"] = json.loads(arguments)
    return message


@pytest.mark.parametrize(("api", "form"), READ)
def test_a_conversation_is_the_same_in_the_words_of_each_api(api, form):
    assert [plain(message) for message in read(api, FORMS[form])] == MESSAGES


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_messages_in_a_row_stay_apart_and_items_are_joined(api):
    begun, called = {"role": "assistant", "content": "a"}, {"role": "assistant"}
    called["tool_calls"] = [CALL]
    assert read(api, [begun, called]) == [begun, called]
    assert read(api, [begun, ITEM, ITEM]) == [{**begun, "tool_calls": [CALL, CALL]}]


HM, HI = Thought("Hm."), Speech("assistant", ["hi"])
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}


@pytest.mark.parametrize(
    ("fields", "entries"),
    [
        *(
            ({"content": "hi", name: "Hm."}, [HM, HI])
            for name in ("reasoning_content", "reasoning", "reasoning_text", "thinking")
        ),
        *(
            ({"content": "hi", name: [{"thinking": "H"}, {"text": "m"}, "."]}, [HM, HI])
            for name in ("thinking_blocks", "reasoning_details")
        ),
        ({"content": [RESULT, text("hi")]}, [Result("c1", ["Error: no"]), HI]),
        ({"content": [text("hi"), RESULT]}, [HI, Result("c1", ["Error: no"])]),
        ({"content": None}, [Speech("assistant", [])]),
    ],
)
def test_entries_of_a_message_keep_their_order(fields, entries):
    assert Message(role="assistant", **fields).entries() == entries


def test_a_picture_beside_no_text_is_alone():
    [entry] = Message(content="", images=[PICTURE]).entries()
    assert list(entry.content) == references([[entry]])


def test_a_result_is_named_by_its_call_where_names_are_asked_for():
    entries = [[Call("c1", "look", "{}", "space"), Result("c1", ["x"])]]
    [call, result] = messages_of(entries, {("space", "look"): "space.look"})
    assert call["tool_calls"][0]["function"]["name"] == result["name"] == "space.look"
    assert "name" not in messages_of(entries)[1]
