"""Pictures in every API: each is seen where it stands, streamed and not, with drafts on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.apps.server.client_requests import BLOCKS, CHAT, GENERATE, ITEMS, OLD, TEXT
from tests.apps.server.scripted import Server
from tests.apps.server.seeing import (
    BEGIN,
    DATA,
    END,
    LENGTHS,
    URLS,
    reply_of,
    seeing,
    texts_and_pictures,
)
from tests.apps.server.test_clients import said

LLAMA = "/completion"
SEEN = "You said: See [red] and [blue]!"
MARK = "<__media__>"
PROMPT = f"<|im_start|>user\nSee {MARK} and {MARK}!<|im_end|>\n<|im_start|>assistant\n"
TWO = [DATA["red"], DATA["blue"]]
PARTS = texts_and_pictures("See ", "[red]", " and ", "[blue]", "!")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = seeing()
    yield made
    made.close()


def user(*content: object, **more: object) -> dict[str, object]:
    return {"role": "user", "content": list(content), **more}


def block(name: str) -> dict[str, object]:
    source = {"type": "base64", "media_type": "image/png", "data": DATA[name]}
    return {"type": "image", "source": source}


def item(name: str, **more: object) -> dict[str, object]:
    return {"type": "input_image", "image_url": URLS[name], "detail": "auto", **more}


def words(text: str) -> dict[str, object]:
    return {"type": "text", "text": text}


@dataclass(frozen=True)
class Way:
    path: str
    body: Mapping[str, object]
    reply: str = SEEN


CHATS = {
    "image_url": PARTS,
    "image_url, a text": [words("See "), {"type": "image_url", "image_url": URLS["red"]}],
    "bare base64": [words("See "), {"type": "image_url", "image_url": {"url": DATA["red"]}}],
    "input_image": [words("See "), item("red")],
    "blocks of Anthropic": [words("See "), block("red")],
    "a file": [
        words("See "),
        {"type": "file", "file": {"filename": "a.png", "file_data": URLS["red"]}},
    ],
    "MCP": [words("See "), {"type": "image", "data": DATA["red"], "mimeType": "image/png"}],
    "transformers": [words("See "), {"type": "image", "url": URLS["red"]}],
}
WAYS = {
    **{
        f"chat: {name}": Way(
            CHAT,
            {"messages": [user(*parts)]},
            SEEN if name == "image_url" else "You said: See [red]",
        )
        for name, parts in CHATS.items()
    },
    "chat: beside the text": Way(
        CHAT,
        {"messages": [{"role": "user", "content": "What?", "images": TWO}]},
        "You said: [red][blue]What?",
    ),
    "chat: result of a tool": Way(
        CHAT,
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "c1",
                            "type": "function",
                            "function": {"name": "f", "arguments": "{}"},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "c1", "content": PARTS},
            ],
            "tools": [{"type": "function", "function": {"name": "f"}}],
        },
    ),
    "responses": Way(
        ITEMS,
        {
            "input": [
                user(
                    {"type": "input_text", "text": "See "},
                    item("red"),
                    {"type": "input_text", "text": " and "},
                    item("blue", file_id=None),
                    {"type": "input_text", "text": "!"},
                )
            ]
        },
    ),
    "responses: output of a tool": Way(
        ITEMS,
        {
            "input": [
                user({"type": "input_text", "text": "look"}),
                {"type": "function_call", "call_id": "c", "name": "view_image", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": [item("red")]},
            ],
            "tools": [{"type": "function", "name": "view_image", "parameters": {}}],
        },
        "You said: [red]",
    ),
    "responses: a file": Way(
        ITEMS,
        {"input": [user({"type": "input_file", "filename": "a", "file_data": URLS["green"]})]},
        "You said: [green]",
    ),
    "messages": Way(
        BLOCKS,
        {
            "max_tokens": 99,
            "messages": [user(words("See"), block("red"), words("and"), block("blue"))],
        },
        "You said: See[red]and[blue]",
    ),
    "messages: result of a tool": Way(
        BLOCKS,
        {
            "max_tokens": 99,
            "messages": [
                {"role": "user", "content": "read it"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}],
                },
                user({"type": "tool_result", "tool_use_id": "t", "content": [block("red")]}),
            ],
            "tools": [{"name": "Read", "input_schema": {"type": "object"}}],
        },
        "You said: [red]",
    ),
    "messages: parts of OpenAI": Way(
        BLOCKS,
        {
            "max_tokens": 99,
            "messages": [user({"type": "image_url", "image_url": URLS["red"]}, item("blue"))],
        },
        "You said: [red][blue]",
    ),
    "messages: a document": Way(
        BLOCKS,
        {
            "max_tokens": 99,
            "messages": [
                user({**block("blue"), "type": "document", "title": "chart.png", "context": "new"})
            ],
        },
        "You said: chart.png\n\nnew[blue]",
    ),
    "ollama: chat": Way(
        OLD,
        {"model": "scripted", "messages": [{"role": "user", "content": "What?", "images": TWO}]},
        "You said: [red][blue]What?",
    ),
    "ollama: generate": Way(
        GENERATE,
        {"model": "scripted", "prompt": "What?", "images": TWO},
        "You said: [red][blue]What?",
    ),
    "llama.cpp: multimodal_data": Way(
        LLAMA, {"prompt": {"prompt_string": PROMPT, "multimodal_data": TWO}, "n_predict": 64}
    ),
    "llama.cpp: image_data": Way(
        LLAMA,
        {
            "prompt": PROMPT.replace(MARK, "[img-12]", 1).replace(MARK, "[img-3]"),
            "image_data": [{"data": DATA["blue"], "id": 3}, {"data": DATA["red"], "id": 12}],
            "n_predict": 64,
        },
    ),
    "completions": Way(
        TEXT,
        {"prompt": {"prompt_string": PROMPT, "multimodal_data": TWO}, "max_tokens": 64},
    ),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", WAYS)
def test_a_picture_is_seen_where_it_stands(server, way, stream):
    path, body = WAYS[way].path, WAYS[way].body
    answer = server.client.post(path, json={**body, "stream": stream})
    assert WAYS[way].reply in reply_of(path, answer)
    assert "x-localspec-ignored" not in answer.headers


@pytest.mark.parametrize("drafts", [{}, {"plain": True}, {"proposer": "suffix", "depth": 8}])
def test_drafts_change_nothing_of_what_is_said_of_pictures(server, drafts):
    repeated = texts_and_pictures("one two three one two three ", "[red]", " one two three one")
    body = {"messages": [user(*repeated)], "localspec": drafts, "temperature": 0}
    answer = server.client.post(CHAT, json=body)
    assert said(CHAT, answer) == "You said: one two three one two three [red] one two three one"
    drafted = answer.json()["timings"].get("draft_n", 0)
    assert bool(drafted) == (not drafts.get("plain"))


def test_the_positions_of_pictures_count_as_tokens_of_the_prompt(server):
    without, _ = (texts_and_pictures("See ", "!"), None)
    counts = [
        server.client.post(CHAT, json={"messages": [user(*parts)]}).json()["usage"]["prompt_tokens"]
        for parts in (without, texts_and_pictures("See ", "[red]", "!"))
    ]
    around = len(LENGTHS) + 1  # tokens before each piece, and at the end
    assert counts[1] - counts[0] == sum(LENGTHS) + around


def test_tokens_are_counted_without_an_answer(server):
    body = {"model": "scripted", "messages": [user(words("See"), block("red"))]}
    counted = server.client.post(f"{BLOCKS}/count_tokens", json=body).json()["input_tokens"]
    answer = server.client.post(BLOCKS, json={**body, "max_tokens": 1}).json()
    used = answer["usage"]
    assert counted == used["input_tokens"] + used["cache_read_input_tokens"]


def test_a_rendered_conversation_shows_where_its_pictures_stand(server):
    answer = server.client.post("/apply-template", json={"messages": [user(*PARTS)]}).json()
    assert answer["prompt"] == PROMPT
    assert server.client.get("/props").json()["media_marker"] == MARK


def test_the_next_turn_reads_nothing_of_a_picture_anew(server):
    first = user(*texts_and_pictures("Remember ", "[green]", ", and the many words behind it."))
    reply = {"role": "assistant", "content": "You said: Remember [green]"}
    server.client.post(CHAT, json={"messages": [first]})
    second = {"role": "user", "content": "And now?"}
    used = server.client.post(CHAT, json={"messages": [first, reply, second]}).json()["usage"]
    read = used["prompt_tokens"] - used["prompt_tokens_details"]["cached_tokens"]
    assert read < len(
        "<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n" * 2
    )


def test_a_stored_response_keeps_its_pictures(server):
    body = {"input": [user({"type": "input_text", "text": "See "}, item("red"))]}
    first = server.client.post(ITEMS, json=body).json()
    listed = server.client.get(f"{ITEMS}/{first['id']}/input_items").json()["data"]
    assert listed[0]["content"][1]["image_url"] == URLS["red"]
    items = [{"type": "item_reference", "id": listed[0]["id"]}]
    again = server.client.post(ITEMS, json={"input": items})
    assert "You said: See [red]" in said(ITEMS, again)
    more = {"previous_response_id": first["id"], "input": "more"}
    answer = server.client.post(ITEMS, json=more).json()
    assert answer["usage"]["input_tokens"] > first["usage"]["input_tokens"]


def test_a_chat_that_is_too_long_loses_its_oldest_turns_with_their_pictures(server):
    old = {"role": "user", "content": "x" * 8190, "images": [DATA["red"]]}
    messages = [old, {"role": "assistant", "content": "yes"}]
    messages.append({"role": "user", "content": "What?", "images": [DATA["blue"]]})
    body = {"model": "scripted", "messages": messages, "stream": False}
    answer = server.client.post(OLD, json=body)
    assert answer.json()["message"]["content"] == "You said: [blue]What?"
    assert answer.headers["x-localspec-ignored"] == "messages"


def test_a_generated_context_has_no_pictures(server):
    body = {"model": "scripted", "prompt": "What?", "images": [DATA["red"]], "stream": False}
    first = server.client.post(GENERATE, json=body).json()
    assert min(first["context"]) >= 0
    more = {"model": "scripted", "prompt": "And?", "context": first["context"], "stream": False}
    assert server.client.post(GENERATE, json=more).json()["response"] == "You said: And?"


def test_a_raw_prompt_begins_with_its_pictures(server):
    raw = "<|im_start|>user\nWhat?<|im_end|>\n<|im_start|>assistant\n"
    body = {"model": "scripted", "prompt": raw, "raw": True, "stream": False}
    counts = [
        server.client.post(GENERATE, json={**body, "images": images}).json()["prompt_eval_count"]
        for images in ([], [DATA["red"]])
    ]
    assert counts[1] > counts[0]


def test_each_of_several_prompts_has_its_own_pictures(server):
    prompts = [
        {"prompt_string": PROMPT, "multimodal_data": TWO},
        PROMPT.replace(MARK, "it"),
        {"prompt_string": PROMPT, "multimodal_data": TWO[::-1]},
    ]
    answer = server.client.post(LLAMA, json={"prompt": prompts, "n_predict": 64}).json()
    contents = [each["content"] for each in answer]
    assert contents == [SEEN, "You said: See it and it!", "You said: See [blue] and [red]!"]


def test_a_text_cannot_stand_for_a_picture(server):
    text = f"{MARK} [img-1] {BEGIN}x{END} <image>"
    answer = server.client.post(CHAT, json={"messages": [{"role": "user", "content": text}]})
    assert said(CHAT, answer) == f"You said: {MARK} [img-1] x <image>"


def test_what_asks_for_another_resolution_is_told(server):
    part = {"type": "image_url", "image_url": {"url": URLS["red"], "detail": "low"}}
    body = {"messages": [user({**part, "max_pixels": 99})]}
    answer = server.client.post(CHAT, json=body)
    assert answer.status_code == 200
    ignored = answer.headers["x-localspec-ignored"]
    assert ignored == "messages.content.detail, messages.content.max_pixels"


def test_several_requests_with_pictures_at_once_are_not_mixed_up(server):
    names = ["red", "blue", "green", "blue", "red", "green", "green", "red"]

    def ask(name: str) -> str:
        parts = texts_and_pictures("See ", f"[{name}]")
        return said(CHAT, server.client.post(CHAT, json={"messages": [user(*parts)]}))

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(ask, names)) == [f"You said: See [{name}]" for name in names]


def test_a_model_that_sees_says_so_wherever_clients_look(server):
    get = server.client.get
    assert get("/props").json()["modalities"] == {"vision": True, "audio": False, "video": False}
    [model] = get("/v1/models").json()["data"]
    assert model["architecture"]["input_modalities"] == ["text", "image"]
    shown = server.client.post("/api/show", json={"model": "scripted"}).json()
    assert "vision" in shown["capabilities"]
