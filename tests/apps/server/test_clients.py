"""Requests of real clients, with all that they say besides, have answers that are of use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from localspec.base.tokenizer import Infill
from tests.apps.server.client_requests import FLAT, HI, OBJECT, READ, requests
from tests.apps.server.odd_requests import odd_requests
from tests.apps.server.scripted import Server

FILE = Path(__file__).parents[4] / "shared" / "data" / "clients" / "requests.jsonl"
EVENT = TypeAdapter(ResponseStreamEvent)
BILLED = "x-anthropic-billing-header: cc_version=2.1.{}; cc_entrypoint=cli; cch={:05x};"


def given() -> Iterator[tuple[str, str, dict[str, object]]]:
    yield from requests()
    yield from odd_requests()
    for line in FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else ():
        record = json.loads(line)
        yield record["name"], record["path"], record["body"]


@pytest.fixture(scope="module")
def editor() -> Iterator[Server]:
    """It has tokens for filling in, too."""
    made = Server()
    made.model.tokenizer.infill = Infill(258, 259, 260, ends=frozenset())
    made.model.context = 4096  # where a text without end ends
    made.replies["hi"] = call("read_file", {"path": "x"})
    yield made
    made.close()


def call(name, arguments):
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{call}\n</tool_call>"


def events(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def said(path, answer):
    """The text of an answer, or the tool that it calls, once it has ended as its API says."""
    if "event-stream" in answer.headers["content-type"]:
        return streamed(path, answer.text)
    record = json.loads(answer.text.splitlines()[-1])
    if path.startswith("/api/"):
        assert record["done"]
        record = [json.loads(line) for line in answer.text.splitlines()]
        parts = [each.get("message", {"content": each.get("response")}) for each in record]
        return "".join(each["content"] for each in parts) + str(parts[0].get("tool_calls", ""))
    if path in ("/completion", "/infill"):
        return "".join(
            each["content"] for each in (record if isinstance(record, list) else [record])
        )
    return {
        "/v1/chat/completions": lambda: whole(record["choices"]),
        "/v1/completions": lambda: "".join(each["text"] for each in record["choices"]),
        "/v1/responses": lambda: json.dumps(record["output"]),
        "/v1/messages": lambda: json.dumps(record["content"]),
        "/v1/messages/count_tokens": lambda: str(record["input_tokens"]),
        "/tokenize": lambda: str(record["tokens"]),
    }[path]()


def whole(choices):
    assert all(choice["finish_reason"] for choice in choices)
    messages = [choice["message"] for choice in choices]
    return "".join((each["content"] or "") + str(each.get("tool_calls", "")) for each in messages)


def streamed(path, text):
    chunks = events(text)
    assert not any("error" in event for event in chunks), chunks[-1]
    match path:
        case "/v1/chat/completions":
            assert text.endswith("data: [DONE]\n\n")
            deltas = [choice["delta"] for event in chunks for choice in event["choices"]]
            return "".join(
                (each.get("content") or "") + str(each.get("tool_calls", "")) for each in deltas
            )
        case "/v1/completions":
            assert text.endswith("data: [DONE]\n\n")
            return "".join(choice["text"] for event in chunks for choice in event["choices"])
        case "/v1/responses":
            assert chunks[-1]["type"] in ("response.completed", "response.incomplete")
            return json.dumps(chunks[-1]["response"]["output"])
        case "/v1/messages":
            assert chunks[-1]["type"] == "message_stop"
            return "".join(str(event.get("delta", "")) for event in chunks)
        case _:
            assert chunks[-1]["stop"]
            return "".join(event["content"] for event in chunks)


SILENT = ("llama.vim: cache", "only the cache", "openai refusal")  # only hold a prompt


@pytest.mark.parametrize(
    ("name", "path", "body"), [pytest.param(*each, id=f"{each[1]} {each[0]}") for each in given()]
)
def test_what_clients_send_is_answered(editor, name, path, body):
    answer = editor.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    if name in SILENT:
        assert answer.json() in ({}, answer.json() | {"content": [], "stop_reason": "max_tokens"})
    else:
        assert said(path, answer).strip("[] ")


def test_an_only_model_is_shown_and_unloaded_by_any_name(server):
    assert server.client.post("/api/show", json={"model": "llama3.2"}).status_code == 200
    away = server.client.post("/api/generate", json={"model": "llama3.2", "keep_alive": 0})
    assert away.json()["done_reason"] == "unload"


def test_a_schema_is_mended_for_the_model_and_for_the_grammar(server):
    server.replies["mend"] = call("f", {"a": 5})
    function = {"name": "f", "parameters": {"type": "OBJECT", "properties": {"a": {"type": "int"}}}}
    tools = [{"type": "function", "function": function}]
    body = {"messages": [{"role": "user", "content": "mend"}], "tools": tools, "temperature": 0}
    [choice] = server.client.post("/v1/chat/completions", json=body).json()["choices"]
    [made] = choice["message"]["tool_calls"]
    assert json.loads(made["function"]["arguments"]) == {"a": 5}
    answer = server.client.post("/apply-template", json=body).json()["prompt"]
    assert '"integer"' in answer
    assert "OBJECT" not in answer


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_with_half_a_character_ends_nothing(server, stream):
    body = {"prompt": "a", "n_predict": 4, "stop": ["\udfff\ud800"], "stream": stream}
    headers = {"content-type": "application/json"}
    answer = server.client.post("/completion", content=json.dumps(body), headers=headers)
    assert answer.status_code == 200
    assert "YYYY" in answer.text.replace('"}', "") or stream


def test_a_bias_of_tokens_that_are_not_there_changes_nothing(server):
    body = {"messages": [HI], "logit_bias": {"65": -100, "50256": -100}, "temperature": 0}
    answer = server.client.post("/v1/chat/completions", json=body)
    assert answer.json()["choices"][0]["message"]["content"] == "You said: hi"


def test_several_prompts_have_an_answer_each(editor):
    prompts = {"prompt": ["a", "bc", [65, 66]], "n_predict": 4}
    body = editor.client.post("/completion", json=prompts).json()
    assert [each["index"] for each in body] == [0, 1, 2]
    assert [each["tokens_evaluated"] for each in body] == [1, 2, 2]
    assert all(each["content"] == "YYYY" for each in body)
    chunks = events(editor.client.post("/completion", json=prompts | {"stream": True}).text)
    assert {each["index"] for each in chunks if each["stop"]} == {0, 1, 2}
    for number in range(3):
        contents = [each["content"] for each in chunks if each["index"] == number]
        assert "".join(contents) == "YYYY"


def test_claude_codes_changing_line_does_not_spoil_the_prefix(server):
    def ask(build, *messages):
        system = [
            {"type": "text", "text": BILLED.format(build, build * 77)},
            {"type": "text", "text": "You are a long system prompt. " * 20},
        ]
        body = {"max_tokens": 50, "system": system, "messages": list(messages)}
        return server.client.post("/v1/messages", json=body).json()

    first = ask(1, HI)
    read = first["usage"]["input_tokens"] + first["usage"]["cache_read_input_tokens"]
    reply = {"role": "assistant", "content": first["content"]}
    second = ask(2, HI, reply, {"role": "user", "content": "more"})["usage"]
    assert second["cache_read_input_tokens"] >= read
    assert second["input_tokens"] < 100
    plain = f"{BILLED.format(3, 3)}\nBe brief."
    bodies = [{"messages": [HI], "system": system} for system in (plain, "Be brief.")]
    counted = [server.client.post("/v1/messages/count_tokens", json=body).json() for body in bodies]
    assert counted[0] == counted[1]


PATCH = {"type": "custom", "name": "apply_patch", "description": "Edit files."} | {
    "format": {"type": "grammar", "syntax": "lark", "definition": 'start: "(" start ")" |'}
}
LINES = 'start: "begin" LF line+ "end" LF?\nline: "+" /.*/ LF\n%import common.LF'
SEARCH = {"type": "tool_search", "execution": "client", "parameters": OBJECT}
SPACE = {"type": "namespace", "description": "Files.", "tools": [FLAT]}
SPACES = [SPACE | {"name": name} for name in ("mcp__a", "mcp__b")]
CODEX = [PATCH, SEARCH, {"type": "local_shell"}, *SPACES, {"type": "web_search"}]


PATCHED = {"type": "custom_tool_call", "name": "apply_patch", "input": 'a\n"b"'}
LISTED = {"type": "exec", "command": ["ls"], "env": {}}
SEARCHED = {"type": "tool_search_call", "execution": "client", "arguments": {"path": "x"}}
CALLED = {"type": "function_call", "name": "read_file", "arguments": '{"path": "x"}'}


@pytest.mark.parametrize(
    ("definition", "said", "follows"),
    [
        (LINES, 'begin\n+ "a"\n+\nend', True),
        (LINES, "begin\n- a\nend", False),
        ("start: start", "- a", True),
    ],
)
def test_a_custom_tool_is_held_to_its_grammar_if_it_is_a_regular_one(
    server, definition, said, follows
):
    server.replies["patch"] = call("apply_patch", {"input": said})
    form = {"type": "grammar", "syntax": "lark", "definition": definition}
    tool = PATCH | {"format": form}
    body = {"input": "patch", "tools": [tool], "max_output_tokens": 200}
    answer = server.client.post("/v1/responses", json=body)
    ignored = answer.headers.get("x-localspec-ignored", "")
    assert ignored == ("" if definition == LINES else "tools.format")
    inputs = [item.get("input", "") for item in answer.json()["output"]]
    assert (inputs == [said]) == follows


@pytest.mark.parametrize(
    ("name", "arguments", "item"),
    [
        ("apply_patch", {"input": 'a\n"b"'}, PATCHED),
        ("local_shell", {"command": ["ls"]}, {"type": "local_shell_call", "action": LISTED}),
        ("tool_search", {"path": "x"}, SEARCHED),
        ("mcp__b.read_file", {"path": "x"}, CALLED | {"namespace": "mcp__b"}),
    ],
)
def test_codex_calls_its_tools_as_items_of_their_kind(server, name, arguments, item):
    server.replies["use it"] = call(name, arguments)
    server.replies["done"] = "Well."
    asked = {"type": "message", "role": "user", "content": "use it"}
    body = {"input": [asked], "tools": CODEX, "stream": True, "temperature": 0}
    answer = server.client.post("/v1/responses", json=body)
    assert answer.headers["x-localspec-ignored"] == "tools.format, tools.web_search"
    chunks = events(answer.text)
    for event in chunks:
        EVENT.validate_python(event)
    [found] = chunks[-1]["response"]["output"]
    assert {key: found[key] for key in item} == item
    assert [e["item"] for e in chunks if e["type"] == "response.output_item.done"] == [found]
    deltas = "".join(event["delta"] for event in chunks if event["type"].endswith(".delta"))
    assert deltas in ("", item.get("input"), item.get("arguments"))
    kind = item["type"].replace("tool_search_call", "function_call").removesuffix("_call")
    result = {"type": f"{kind}_call_output", "call_id": found["call_id"], "output": "done"}
    later = body | {"input": [asked, found, result], "stream": False}
    answer = server.client.post("/v1/responses", json=later)
    assert answer.json()["output"][0]["content"][0]["text"] == "Well."


def test_tools_that_a_search_found_can_be_called(server):
    server.replies["found"] = call("read_file", {"path": "x"})
    search = {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {}}
    fields = {"type": "tool_search_output", "call_id": "s", "tools": [FLAT]}
    asked = [HI, search, fields, {"role": "user", "content": "found"}]
    body = {"input": asked, "tools": [SEARCH], "temperature": 0}
    [item] = server.client.post("/v1/responses", json=body).json()["output"]
    assert (item["type"], item["name"]) == ("function_call", "read_file")


def test_clients_that_know_functions_and_no_tools_are_answered_so(server):
    server.replies["old?"] = call("read_file", {"path": "x"})
    asked = {
        "messages": [{"role": "user", "content": "old?"}],
        "functions": [READ],
        "temperature": 0,
    }
    [choice] = server.client.post("/v1/chat/completions", json=asked).json()["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "read_file", "arguments": '{"path": "x"}'}
    chunks = events(server.client.post("/v1/chat/completions", json=asked | {"stream": True}).text)
    deltas = [event["choices"][0]["delta"].get("function_call", {}) for event in chunks]
    assert "".join(each.get("name", "") for each in deltas) == "read_file"
    assert "".join(each.get("arguments", "") for each in deltas) == '{"path": "x"}'
    forced = server.client.post(
        "/v1/chat/completions", json=asked | {"function_call": {"name": "no"}}
    )
    assert "which is no tool" in forced.text
    history = [
        HI,
        {"role": "assistant", "content": None, "function_call": choice["message"]["function_call"]},
        {"role": "function", "name": "read_file", "content": "its text"},
    ]
    answer = server.client.post("/v1/chat/completions", json=asked | {"messages": history})
    assert answer.json()["choices"][0]["message"]["content"] == "You said: its text"
