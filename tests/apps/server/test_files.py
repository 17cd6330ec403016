"""Files in messages, and conversations in the words of another API."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from tests.apps.server.client_requests import BLOCKS, CALL, CHAT, HI, ITEMS, RESULT
from tests.apps.server.test_clients import said

WORDS = "Grüße\n# Titel"
PLAIN = b64encode(WORDS.encode()).decode()
WAYS = {
    "base64": PLAIN,
    "a data URL": f"data:text/markdown;base64,{PLAIN}",
    "a data URL without base64": "data:text/plain;charset=utf-8,Gr%C3%BC%C3%9Fe%0A%23%20Titel",
    "base64 in lines": f"{PLAIN[:8]}\n{PLAIN[8:]}",
    "UTF-16": b64encode(WORDS.encode("utf-16")).decode(),
    "UTF-8 with a mark": b64encode(WORDS.encode("utf-8-sig")).decode(),
}
OTHERS = {
    "a PDF": b64encode(b"%PDF-1.7\n1 0 obj").decode(),
    "bytes": "data:font/woff2;base64," + b64encode(b"wOF2\xff\0").decode(),
    "zeros": b64encode(b"a\0b").decode(),
    "no base64": "*** nothing ***",
}


def asked(path, data):
    if path == CHAT:
        part = {"type": "file", "file": {"filename": "a.md", "file_data": data}}
        return {"messages": [{"role": "user", "content": [part]}]}
    if path == ITEMS:
        part = {"type": "input_file", "filename": "a.md", "file_data": data}
        return {"input": [{"role": "user", "content": [part]}]}
    source = {"type": "base64", "media_type": "text/plain", "data": data}
    part = {"type": "document", "title": "a.md", "source": source}
    return {"max_tokens": 99, "messages": [{"role": "user", "content": [part]}]}


@pytest.mark.parametrize("path", [CHAT, ITEMS, BLOCKS])
@pytest.mark.parametrize("way", WAYS)
def test_a_file_of_text_is_read_with_its_name(server, path, way):
    answer = server.client.post(path, json=asked(path, WAYS[way]))
    assert answer.status_code == 200, answer.text
    texts = said(path, answer)
    assert "You said: a.md" in texts
    assert "Titel" in texts
    assert "Grüße" in texts or "Gr\\u00fc\\u00dfe" in texts


@pytest.mark.parametrize("path", [CHAT, ITEMS, BLOCKS])
@pytest.mark.parametrize("other", OTHERS)
def test_a_file_that_is_no_text_is_refused(server, path, other):
    answer = server.client.post(path, json=asked(path, OTHERS[other]))
    assert answer.status_code == 400
    assert "a file cannot be read" in answer.text


@pytest.mark.parametrize("given", [{"file_id": "file-1"}, {"file_url": "https://a/b"}, {}])
def test_a_file_that_is_elsewhere_is_refused(server, given):
    for path, part in ((CHAT, {"file": given}), (ITEMS, given)):
        kind = {CHAT: "file", ITEMS: "input_file"}[path]
        field = {CHAT: "messages", ITEMS: "input"}[path]
        turn = {"role": "user", "content": [{"type": kind, **part}]}
        answer = server.client.post(path, json={field: [turn]})
        assert (answer.status_code, "not in the request" in answer.text) == (400, True)


def test_responses_take_the_messages_of_a_chat(server):
    reply = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    for body in ({"messages": [HI, reply, RESULT]}, {"input": [HI, reply, RESULT]}):
        answer = server.client.post(ITEMS, json=body)
        assert "You said: text" in said(ITEMS, answer)


def test_instructions_may_be_items(server):
    rules = {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}
    for given in ([rules], []):
        answer = server.client.post(ITEMS, json={"input": "here", "instructions": given})
        assert "You said: here" in said(ITEMS, answer)
    counted = [
        server.client.post(f"{ITEMS}/input_tokens", json={"input": "here", "instructions": given})
        for given in ([rules], [])
    ]
    more, less = (json.loads(each.text)["input_tokens"] for each in counted)
    assert more > less


def test_a_response_goes_on_without_new_input(server):
    first = server.client.post(ITEMS, json={"input": "here"}).json()
    answer = server.client.post(ITEMS, json={"previous_response_id": first["id"]})
    assert answer.status_code == 200, answer.text
    nothing = server.client.post(ITEMS, json={"instructions": "Be brief."})
    assert (nothing.status_code, nothing.json()["error"]["param"]) == (400, "input")


def test_chats_take_the_items_of_a_response(server):
    called = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "text"}
    items = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]
    body = {"input": [*items, called, result], "instructions": "Be brief."}
    assert said(CHAT, server.client.post(CHAT, json=body)) == "You said: text"
    assert said(CHAT, server.client.post(CHAT, json={"input": "here"})) == "You said: here"


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", ITEMS])
def test_a_limit_of_no_tokens_is_one_token(server, path):
    field = {CHAT: "messages", ITEMS: "input"}.get(path, "prompt")
    name = "max_output_tokens" if path == ITEMS else "max_tokens"
    body = {field: "a" if field == "prompt" else [HI], name: 0}
    answer = server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    used = answer.json()["usage"]
    assert used.get("completion_tokens", used.get("output_tokens")) == 1
    assert answer.headers["x-localspec-ignored"] == name


@pytest.mark.parametrize("form", ["text", "JSON", {"type": "json_object"}])
def test_forms_of_other_servers_are_known_to_ollamas_api(server, form):
    server.replies["form?"] = "{}"
    turn = {"role": "user", "content": "form?"}
    body = {"model": "m", "stream": False, "messages": [turn], "format": form}
    answer = server.client.post("/api/chat", json=body)
    assert answer.json()["message"]["content"] == "{}"


def test_an_empty_suffix_is_none_where_no_middle_can_be_filled_in(server):
    answer = server.client.post("/v1/completions", json={"prompt": "a", "suffix": ""})
    assert answer.status_code == 200, answer.text
    middle = server.client.post("/v1/completions", json={"prompt": "a", "suffix": "b"})
    assert middle.status_code == 400
