"""The WebSockets of LM Studio's SDKs, by a client that says what those say."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from localspec.server.app import Terms
from localspec.server.safety import Rules
from tests.server.scripted import TEMPLATE, Server
from tests.server.test_clients import call
from tests.server.test_load import until

KEY = "first-key"
TOKEN = "sk-lm-abcdefgh:abcdefghijabcdefghij"  # as the SDKs want one, which they split
COMPLETING = {"layerName": "completeModeFormatting", "config": {"fields": []}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = {"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}


class Client:
    """One connection to a namespace, after its greeting."""

    def __init__(self, socket, passkey="any"):
        self.socket, self.number = socket, 0
        greeting = {"clientIdentifier": "abcdefgh", "clientPasskey": passkey}
        self.say({"authVersion": 1, **greeting})
        self.greeting = self.hear()

    def say(self, message):
        self.socket.send(json.dumps(message))

    def hear(self):
        return json.loads(self.socket.recv(timeout=30))

    def rpc(self, endpoint, parameter=None):
        self.number += 1
        self.say(
            {"type": "rpcCall", "endpoint": endpoint, "callId": self.number, "parameter": parameter}
        )
        found = self.hear()
        assert found["callId"] == self.number
        return found

    def open(self, endpoint, parameter=None):
        self.number += 1
        begun = {"type": "channelCreate", "endpoint": endpoint, "channelId": self.number}
        self.say({**begun, "creationParameter": parameter})
        return self.number

    def channel(self, endpoint, parameter=None):
        number, found = self.open(endpoint, parameter), []
        while (message := self.hear())["type"] == "channelSend":
            assert message["channelId"] == number
            found.append(message["message"])
        return found, message


@contextmanager
def client(server, namespace="llm", passkey="any", **headers):
    address = server.address.replace("http", "ws")
    with connect(f"{address}/{namespace}", additional_headers=headers, proxy=None) as socket:
        yield Client(socket, passkey)


def message(text, role="user"):
    return {"role": role, "content": [{"type": "text", "text": text}]}


def asked(*messages, layers=(), **fields):
    told = [{"key": f"llm.prediction.{key}", "value": value} for key, value in fields.items()]
    override = {"layerName": "apiOverride", "config": {"fields": told}}
    return {
        "modelSpecifier": {"type": "query", "query": {"identifier": "scripted"}},
        "history": {"messages": list(messages)},
        "predictionConfigStack": {"layers": [override, *layers]},
    }


def text(messages, kind=None):
    fragments = [each["fragment"] for each in messages if each["type"] == "fragment"]
    return "".join(each["content"] for each in fragments if kind in (None, each["reasoningType"]))


def test_sdks_that_look_for_a_server_find_one(server):
    assert server.client.get("/lmstudio-greeting").json() == {"lmstudio": True}
    with client(server, "system") as system:
        assert system.greeting == {"success": True}
        assert system.rpc("version")["result"]["version"]
        [model] = system.rpc("listDownloadedModels")["result"]
        assert (model["modelKey"], model["type"], model["format"]) == ("scripted", "llm", "gguf")


def test_a_model_is_loaded_and_told_of(server):
    with client(server) as llm:
        found, end = llm.channel("getOrLoad", {"identifier": "scripted"})
        assert found[-1]["type"] in ("alreadyLoaded", "loadSuccess")
        info = found[-1]["info"]
        assert (info["identifier"], info["contextLength"]) == ("scripted", 8192)
        assert end["type"] == "channelClose"
        found, _ = llm.channel("loadModel", {"modelKey": "scripted"})
        assert [each["type"] for each in found] == ["resolved", "success"]
        assert llm.rpc("listLoaded")["result"] == [info]
        anything = {"specifier": {"type": "query", "query": {}}, "throwIfNotFound": True}
        assert llm.rpc("getModelInfo", anything)["result"] == info
        assert "result" not in llm.rpc("preloadDraftModel", {})  # null is no answer there
        named = {"specifier": {"type": "instanceReference", "instanceReference": "scripted"}}
        fields = llm.rpc("getLoadConfig", named)["result"]["fields"]
        assert fields == [{"key": "llm.load.contextLength", "value": 8192}]


def test_a_conversation_is_answered_in_fragments_with_figures(server):
    with client(server) as llm:
        rules, turn = message("Be brief.", "system"), message("here")
        found, end = llm.channel("predict", asked(rules, turn, temperature=0))
        assert text(found) == "You said: here"
        assert end == {"type": "channelClose", "channelId": 1}
        last = found[-1]
        assert last["type"] == "success"
        assert last["stats"]["stopReason"] == "eosFound"
        tokens = sum(each["fragment"]["tokensCount"] for each in found[:-1])
        assert 0 < tokens <= last["stats"]["predictedTokensCount"]
        assert last["modelInfo"]["identifier"] == "scripted"


def test_settings_are_read_from_the_configuration(server):
    with client(server) as llm:
        cut = {"maxPredictedTokens": {"checked": True, "value": 3}, "topKSampling": -1}
        off = {"repeatPenalty": {"checked": False, "value": 9}, "seed": {"checked": False}}
        found, _ = llm.channel("predict", asked(message("here"), **cut, **off))
        assert text(found) == "You"
        assert found[-1]["stats"]["stopReason"] == "maxPredictedTokensReached"
        found, _ = llm.channel("predict", asked(message("here"), stopStrings=[": h"]))
        assert text(found) == "You said"
        assert found[-1]["stats"]["stopReason"] == "stopStringFound"


def test_a_text_is_gone_on_with_without_a_template(server):
    with client(server) as llm:
        found, _ = llm.channel("predict", asked(message("plain"), layers=[COMPLETING]))
        assert found[-1]["stats"]["promptTokensCount"] == len("plain")
        raw = asked() | {"rawPrompt": "plain"}
        again, _ = llm.channel("completeRawText", raw)
        assert text(again) == text(found)


def test_a_reply_has_the_form_that_is_wished(server):
    server.replies["form"] = 'Well: {"path": "x"}'
    with client(server) as llm:
        structured = {"type": "gbnf", "gbnfGrammar": 'root ::= "yes" | "no"'}
        found, _ = llm.channel("predict", asked(message("form"), structured=structured))
        assert text(found) in ("yes", "no")
        server.replies["form"] = '{"path": "x"}'
        structured = {"type": "json", "jsonSchema": SCHEMA | {"additionalProperties": False}}
        found, _ = llm.channel("predict", asked(message("form"), structured=structured))
        assert json.loads(text(found)) == {"path": "x"}


def test_tools_are_called_and_their_results_read(server):
    server.replies["read x"] = call("read_file", {"path": "x"})
    tools = {"type": "toolArray", "tools": [READ]}
    with client(server) as llm:
        found, _ = llm.channel("predict", asked(message("read x"), tools=tools))
        [end] = [each for each in found if each["type"] == "toolCallGenerationEnd"]
        request = end["toolCallRequest"]
        assert (request["name"], request["arguments"]) == ("read_file", {"path": "x"})
        assert found[-1]["stats"]["stopReason"] == "toolCalls"
        called = {"type": "toolCallRequest", "toolCallRequest": request}
        result = {"type": "toolCallResult", "content": "text", "toolCallId": request["id"]}
        turns = [
            message("read x"),
            {"role": "assistant", "content": [called]},
            {"role": "tool", "content": [result]},
        ]
        found, _ = llm.channel("predict", asked(*turns, tools=tools))
        assert text(found) == "You said: text"


def test_thoughts_are_told_apart_and_left_out_of_objects():
    replies = {"why?": "<think>\nHm.\n</think>\n\nSo."}
    server = Server(replies, template="{# <think> </think> #}" + TEMPLATE)
    try:
        with client(server) as llm:
            found, _ = llm.channel("predict", asked(message("why?")))
            assert text(found, "reasoning").strip() == "Hm."
            assert text(found, "none").strip() == "So."
            assert text(found).startswith("<think>")
            assert "</think>" in text(found)
    finally:
        server.close()


def test_texts_are_tokenised_counted_and_put_into_the_template(server):
    specifier = {"type": "query", "query": {"identifier": "scripted"}}
    with client(server) as llm:
        given = {"specifier": specifier, "inputString": "abc"}
        assert llm.rpc("tokenize", given)["result"] == {"tokens": [97, 98, 99]}
        assert llm.rpc("countTokens", given)["result"] == {"tokenCount": 3}
        history = {"messages": [message("here")]}
        given = {"specifier": specifier, "history": history, "opts": {}}
        told = llm.rpc("applyPromptTemplate", given)["result"]["formatted"]
        assert told == "<|im_start|>user\nhere<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture
def slow():
    made = Server(pause=0.02, terms=Terms(rules=Rules(body_bytes=1 << 20)), slots=2)
    made.replies["long"] = "word " * 400
    yield made
    made.close()


def test_a_reply_that_is_cancelled_ends_with_what_has_come(slow):
    with client(slow) as llm:
        number = llm.open("predict", asked(message("long")))
        assert llm.hear()["message"]["type"] == "fragment"
        llm.say({"type": "channelSend", "channelId": number, "message": {"type": "cancel"}})
        while (last := llm.hear()["message"])["type"] == "fragment":
            pass
        assert last["stats"]["stopReason"] == "userStopped"
        assert last["stats"]["predictedTokensCount"] < 2000
        assert llm.hear()["type"] == "channelClose"
        until(lambda: slow.idle)


def test_a_client_that_leaves_frees_its_slot_and_disturbs_no_other(slow, caplog):
    with client(slow) as stays:
        with client(slow) as leaves:
            leaves.open("predict", asked(message("long")))
            assert leaves.hear()["message"]["type"] == "fragment"
            leaves.socket.socket.close()
        with client(slow, "system"):
            pass  # which goes with a farewell
        assert text(stays.channel("predict", asked(message("here")))[0]) == "You said: here"
        until(lambda: slow.client.get("/health").json()["busy"] == 0)
    assert "Exception" not in caplog.text


def test_what_is_wrong_is_told_and_the_connection_goes_on(server):
    with client(server) as llm:
        for given in ("no JSON", "[]", '{"type": "rpcCall"}', "[" * 100_000, '"a"'):
            llm.socket.send(given)
            assert llm.hear()["type"] == "communicationWarning"
        for endpoint in ("nowhere", "embedString"):
            assert "no llm/" in llm.rpc(endpoint)["error"]["title"]
        assert llm.rpc("tokenize", 5)["type"] == "rpcError"
        assert llm.channel("nowhere")[1]["type"] == "channelError"
        assert llm.channel("predict", {"history": 5})[1]["type"] == "channelError"
        picture = {"type": "file", "name": "a.png", "identifier": "a", "sizeBytes": 1}
        turn = {"role": "user", "content": [picture]}
        assert "a.png" in llm.channel("predict", asked(turn))[1]["error"]["title"]
        long = asked(message("x" * 9000))
        assert "8,192" in llm.channel("predict", long)[1]["error"]["title"]
        assert text(llm.channel("predict", asked(message("here")))[0]) == "You said: here"


def test_frames_that_are_no_text_or_too_large_end_the_connection(server):
    for frame in (b"bytes", "x" * (2 << 20)):
        with client(server) as llm:
            llm.socket.send(frame)
            with pytest.raises(ConnectionClosed):
                llm.hear()
    with client(server) as llm:
        assert llm.rpc("listLoaded")["type"] == "rpcResult"


def test_nobody_opens_more_at_once_than_there_is_room_for(slow):
    with client(slow) as llm:
        for _ in range(70):
            llm.open("predict", asked(message("long")))
        while (said := llm.hear())["type"] != "channelError":
            pass
        assert "limit" in said["error"]["title"]
    until(lambda: slow.client.get("/health").json()["busy"] == 0)


@pytest.fixture(scope="module")
def locked():
    made = Server(terms=Terms(rules=Rules(keys=(KEY, TOKEN)), manage=False))
    yield made
    made.close()


def test_a_key_is_wanted_in_a_header_or_in_the_first_message(locked):
    split = TOKEN.partition(":")[2]
    for passkey, headers in (("x", {"Authorization": f"Bearer {KEY}"}), (KEY, {}), (split, {})):
        with client(locked, passkey=passkey, **headers) as llm:
            assert llm.greeting == {"success": True}
            assert llm.rpc("listLoaded")["result"] == []
    for passkey in ("", "x", KEY.upper(), "\u00e9", None):
        with client(locked, passkey=passkey) as llm:
            assert llm.greeting["success"] is False
            with pytest.raises(ConnectionClosed):
                llm.rpc("listLoaded")


def test_a_client_that_may_not_manage_models_unloads_none(locked):
    with client(locked, passkey=KEY) as llm:
        assert "manage" in llm.rpc("unloadModel", {"identifier": "scripted"})["error"]["title"]


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}, {"origin": "null"}]
)
def test_pages_of_other_sites_open_no_socket(server, headers):
    wish = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    key = {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    assert server.client.get("/llm", headers=wish | key | headers).status_code == 403


def test_pages_that_are_allowed_and_desktop_programs_open_sockets():
    server = Server(terms=Terms(origins=("https://good.example",)))
    try:
        for origin in ("https://good.example", "app://x", server.address):
            with client(server, Origin=origin) as llm:
                assert llm.greeting == {"success": True}
    finally:
        server.close()


@pytest.mark.parametrize("path", ["v1/chat/completions", "nowhere", "health"])
def test_other_paths_are_no_sockets(server, path):
    with pytest.raises(InvalidStatus), client(server, path):
        pass
