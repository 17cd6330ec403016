"""Pictures through the libraries of clients, and as agents and editors send them."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import ollama
import openai
import pytest
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

from tests.apps.server.client_requests import BLOCKS, CHAT, ITEMS, TOOL, Body, blocks, chat, items
from tests.apps.server.scripted import Server
from tests.apps.server.seeing import DATA, FILES, URLS, reply_of, seeing, texts_and_pictures

SEEN = "You said: See [red]"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = seeing()
    yield made
    made.close()


def test_openai_shows_a_picture_in_a_chat(server):
    messages = [{"role": "user", "content": texts_and_pictures("See ", "[red]")}]
    asked = {"model": "scripted", "messages": messages}
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="any", max_retries=0) as client:
        reply = client.chat.completions.create(**asked)
        assert reply.choices[0].message.content == SEEN
        chunks = client.chat.completions.create(**asked, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == SEEN


def test_openai_shows_a_picture_among_items(server):
    image = {"type": "input_image", "image_url": URLS["red"], "detail": "auto"}
    content = [{"type": "input_text", "text": "See "}, image]
    asked = {"model": "scripted", "input": [{"role": "user", "content": content}]}
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="any", max_retries=0) as client:
        assert client.responses.create(**asked).output_text == SEEN
        with client.responses.stream(**asked) as stream:
            assert stream.get_final_response().output_text == SEEN


def test_anthropic_shows_a_picture(server):
    source = {"type": "base64", "media_type": "image/png", "data": DATA["red"]}
    content = [{"type": "text", "text": "See "}, {"type": "image", "source": source}]
    messages = [{"role": "user", "content": content}]
    asked = {"model": "scripted", "max_tokens": 99, "messages": messages}
    with anthropic.Anthropic(base_url=server.address, api_key="any", max_retries=0) as client:
        assert client.messages.create(**asked).content[0].text == SEEN
        with client.messages.stream(**asked) as stream:
            assert "".join(stream.text_stream) == SEEN
        del asked["max_tokens"]
        assert client.messages.count_tokens(**asked).input_tokens > 0


def test_ollama_shows_a_picture(server, tmp_path):
    file = tmp_path / "red.png"
    file.write_bytes(FILES["red"])
    with ollama.Client(host=server.address) as client:
        for image in (FILES["red"], str(file), DATA["red"]):
            message = {"role": "user", "content": "What?", "images": [image]}
            reply = client.chat(model="scripted", messages=[message])
            assert reply.message.content == "You said: [red]What?"
            parts = client.generate(model="scripted", prompt="What?", images=[image], stream=True)
            assert "".join(part.response for part in parts) == "You said: [red]What?"
        assert "vision" in client.show("scripted").capabilities


@pytest.mark.parametrize(
    "image",
    [
        {"type": "image_url", "image_url": {"url": URLS["red"]}},
        {"type": "image", "source_type": "base64", "data": DATA["red"], "mime_type": "image/png"},
        {"type": "image", "base64": DATA["red"], "mime_type": "image/png"},
    ],
)
def test_langchain_shows_a_picture(server, image):
    model = ChatOpenAI(
        model="scripted", base_url=f"{server.address}/v1", api_key="any", max_retries=0
    )
    message = HumanMessage(content=[{"type": "text", "text": "See "}, image])
    assert model.invoke([message]).content == SEEN
    assert "".join(chunk.content for chunk in model.stream([message])) == SEEN


SOURCE = {"type": "base64", "media_type": "image/png", "data": DATA["blue"]}
SHOT = {"type": "image", "source": SOURCE}
KEPT = {"cache_control": {"type": "ephemeral"}}
# The tools by which they look at files, among others.
READ = {
    "name": "Read",
    "description": "Reads a file from the local filesystem.",
    "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "file_path": {"description": "The absolute path", "type": "string"},
            "limit": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
        },
        "required": ["file_path"],
        "additionalProperties": False,
    },
}
PATH = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "Local filesystem path"}},
    "required": ["path"],
    "additionalProperties": False,
}
VIEW = {"type": "function", "name": "view_image", "description": "View", "parameters": PATH}
CLOSE = {"type": "function", "name": "close_agent", "description": "Close", "parameters": PATH}


def claude(*turns: Body) -> Body:
    """Write what Claude Code 2.1.197 sends, without most of its words and tools."""
    reminder = {"type": "text", "text": "<system-reminder>\nThe date is today.\n</system-reminder>"}
    question = {"type": "text", "text": "Look at shot.png here and say what it shows"}
    return blocks(
        {"role": "user", "content": [reminder, question]},
        {"role": "system", "content": "Available agent types for the Agent tool:"},
        *turns,
        system=[{"type": "text", "text": "You are an agent.", **KEPT}] * 2,
        tools=[READ],
        metadata={"user_id": '{"device_id":"0","account_uuid":"","session_id":"0"}'},
        max_tokens=100_000,
        thinking={"type": "adaptive"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        stream=True,
    )


def codex(*turns: Body) -> Body:
    """Write what Codex 0.171 sends, without most of its words and tools."""
    return items(
        message("developer", {"type": "input_text", "text": "You are a coding agent."}),
        message("user", {"type": "input_text", "text": "<environment_context/>"}),
        *turns,
        stream=True,
        tools=[
            {**VIEW, "strict": False},
            {"type": "namespace", "name": "agents", "description": "Agents", "tools": [CLOSE]},
            {"type": "web_search", "external_web_access": False},
        ],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"summary": "auto"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="0",
        client_metadata={"thread_id": "0", "x-codex-window-id": "0:0"},
    )


def message(role: str, *content: Body) -> Body:
    return {"type": "message", "id": f"msg_{role}", "role": role, "content": list(content)}


BLUE = {"type": "input_image", "image_url": URLS["blue"], "detail": "high"}
REQUESTS = {
    "Claude Code: a pasted picture": (
        BLOCKS,
        blocks(
            {"role": "user", "content": [SHOT, {"type": "text", "text": "[Image #1] it", **KEPT}]},
            tools=[READ],
            stream=True,
        ),
        "You said: [blue][Image #1] it",
    ),
    "Claude Code: a picture that it read": (
        BLOCKS,
        claude(
            {
                "role": "assistant",
                "content": [
                    {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "Read",
                        "input": {"file_path": "/a/shot.png"},
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "tool_use_id": "toolu_1",
                        "type": "tool_result",
                        "content": [{"type": "image", "source": SOURCE}],
                        **KEPT,
                    }
                ],
            },
        ),
        "You said: [blue]",
    ),
    "Codex: a picture of its command line": (
        ITEMS,
        codex(
            message(
                "user",
                {"type": "input_text", "text": '<image name=[Image #1] path="shot.png">'},
                BLUE,
                {"type": "input_text", "text": "</image>"},
                {"type": "input_text", "text": "What does it show?"},
            )
        ),
        "[blue]</image>What does it show?",
    ),
    "Codex: a picture that it looked at": (
        ITEMS,
        codex(
            message("user", {"type": "input_text", "text": "Look at shot.png"}),
            {
                "type": "function_call",
                "status": "completed",
                "id": "fc_1",
                "name": "view_image",
                "arguments": '{"path": "/a/shot.png"}',
                "call_id": "call_1",
            },
            {
                "type": "function_call_output",
                "id": "fco_1",
                "call_id": "call_1",
                "output": [BLUE],
            },
        ),
        "[blue]",
    ),
    "Open WebUI": (
        CHAT,
        chat(
            {"role": "user", "content": texts_and_pictures("See ", "[blue]")},
            stream=True,
            stream_options={"include_usage": True},
        ),
        "You said: See [blue]",
    ),
    "VS Code": (
        CHAT,
        chat(
            {"role": "system", "content": "You are Copilot."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See "},
                    {
                        "type": "image_url",
                        "image_url": {"url": URLS["blue"], "detail": "auto"},
                        "media_type": "image/png",
                    },
                ],
                "name": "user",
            },
            stream=True,
            n=1,
            tools=[TOOL],
        ),
        "You said: See [blue]",
    ),
}


@pytest.mark.parametrize("client", REQUESTS)
def test_a_picture_is_seen_as_a_client_sends_it(server, client):
    path, body, reply = REQUESTS[client]
    answer = server.client.post(path, json=body)
    assert reply in reply_of(path, answer)
    assert answer.headers.get("x-localspec-ignored") in (None, "tools.web_search")
