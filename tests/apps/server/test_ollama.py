"""Ollama's API, as its own client library sees it."""

from __future__ import annotations

import json
import math
import re
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import ollama
import pytest

from localspec.apps.server.conversation.items import groups
from localspec.apps.server.conversation.messages import Message
from localspec.apps.server.conversation.transcript import messages_of
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.ollama.answer import call_objects
from localspec.apps.server.ollama.options import OllamaOptions
from localspec.apps.server.ollama.request import GenerateRequest, OllamaChatRequest, paired
from localspec.apps.server.replies.reply import Called
from localspec.apps.server.server_policy import ServerPolicy
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.interfaces.footprint import Footprint
from localspec.interfaces.testing import LETTERS
from tests.apps.server.coder import Coder
from tests.apps.server.scripted import TEMPLATE, Server

HERE = [{"role": "user", "content": "here"}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
THINKING = "{% if enable_thinking %}<think></think>{% endif %}"
ZERO = {"num_thread": 8, "num_gpu": 99, "mirostat": 0, "num_ctx": 4096, "num_keep": 4}


def weather(city: str) -> str:
    """Tell the weather.

    Args:
      city: where
    """
    return f"rain in {city}"


@pytest.fixture(scope="module")
def thinker():
    made = Server(template=THINKING + TEMPLATE.replace("{%- if tools %}", "{%- if false %}"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def coder():
    made = Coder()
    yield made
    made.server.close()


def client_of(server):
    return ollama.Client(host=server.address)


@pytest.fixture
def client(server):
    with client_of(server) as made:
        yield made


def ask(client, text="here", **wishes):
    messages = [{"role": "user", "content": text}]
    return client.chat(model="scripted", messages=messages, **wishes)


def test_a_conversation_is_answered_with_what_it_took(client):
    reply = ask(client, "Guten Morgen, größe!")
    assert reply.message.content == "You said: Guten Morgen, größe!"
    assert reply.message.role == "assistant"
    assert reply.model == "scripted"
    assert reply.done
    assert reply.done_reason == "stop"
    assert reply.eval_count == len("You said: Guten Morgen, größe!".encode()) + 1
    assert reply.prompt_eval_count > 20
    assert reply.total_duration >= reply.prompt_eval_duration + reply.eval_duration > 0
    assert reply.load_duration >= 0


def test_a_stream_says_the_same_and_counts_at_its_end(client):
    *pieces, end = ask(client, stream=True)
    assert "".join(piece.message.content for piece in pieces) == "You said: here"
    assert len(pieces) > 1
    assert not any(piece.done for piece in pieces)
    assert end.done
    assert end.done_reason == "stop"
    assert end.message.content == ""
    assert end.eval_count == len("You said: here") + 1


def test_without_a_word_about_it_lines_are_streamed(server):
    body = {"model": "scripted:latest", "messages": HERE}
    reply = server.client.post("/api/chat", json=body)
    assert reply.headers["content-type"] == "application/x-ndjson"
    *_, last = map(json.loads, reply.text.splitlines())
    assert last["done"]
    assert last["model"] == "scripted:latest"


def test_a_call_comes_whole_with_its_arguments_as_an_object(server, client):
    server.replies["weather?"] = CALL
    reply = ask(client, "weather?", tools=[weather])
    [call] = reply.message.tool_calls
    assert (call.function.name, call.function.arguments) == ("weather", {"city": "Oslo"})
    assert reply.done_reason == "stop"
    assert reply.message.content == ""
    pieces = list(ask(client, "weather?", tools=[weather], stream=True))
    [streamed] = [call for piece in pieces for call in piece.message.tool_calls or []]
    assert streamed.function == call.function


def test_of_two_calls_the_first_is_told_before_the_second_is_over(server, client):
    server.replies["both?"] = f"Well.{CALL}\n{CALL.replace('Oslo', 'Rome')}"
    pieces = list(ask(client, "both?", tools=[weather], stream=True))
    counts = [len(piece.message.tool_calls or []) for piece in pieces]
    assert sum(counts) == 2
    assert max(counts) == 1
    assert "".join(piece.message.content for piece in pieces) == "Well."


def test_a_call_that_was_cut_short_is_not_told(server, client):
    server.replies["weather?"] = CALL
    reply = ask(client, "weather?", tools=[weather], options={"num_predict": len(CALL) - 20})
    assert reply.done_reason == "length"
    assert not reply.message.tool_calls


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (r'{"city": "a\ud800b"}', {"city": "a?b"}),
        (r'{"city": "\ud83d\ude00"}', {"city": "\U0001f600"}),
        ("", {}),
    ],
)
def test_arguments_are_told_without_half_letters(given, told):
    [call] = call_objects([Called("weather", given)], 3)
    assert call["function"] == {"index": 3, "name": "weather", "arguments": told}


@pytest.mark.parametrize("given", ['{"city": ', '{"x": 1e999}', '{"x": 1' + "0" * 5000 + "}"])
def test_arguments_that_no_json_can_tell_are_left_out(given):
    assert call_objects([Called("weather", given)]) == []


def test_a_result_belongs_to_the_call_of_its_name(server, client):
    calls = [{"function": {"name": name, "arguments": {}}} for name in ("one", "two")]
    server.replies["second"] = "Understood."
    messages = [
        *HERE,
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_name": "two", "content": "first"},
        {"role": "tool", "content": "second"},
    ]
    assert client.chat(model="scripted", messages=messages).message.content == "Understood."


def test_results_are_paired_with_calls():
    calls = [{"function": {"name": name, "arguments": {}}} for name in ("one", "two", "one")]
    calls[2]["id"] = "own"
    results = [
        {"role": "tool", "tool_name": "two"},
        {"role": "tool", "tool_name": "one", "tool_call_id": "own"},
        {"role": "tool"},
        {"role": "tool", "tool_name": "three"},
    ]
    messages = [{"role": "assistant", "tool_calls": calls, "thinking": "hm"}, *results]
    read = groups([Message.model_validate(each) for each in messages])
    first, *rest = messages_of(paired(read))
    ids = [call["id"] for call in first["tool_calls"]]
    assert len(set(ids)) == 3
    assert first["reasoning_content"] == "hm"
    assert [each["tool_call_id"] for each in rest] == [ids[1], "own", ids[0], ""]
    assert [each["name"] for each in rest] == ["two", "one", "one", "three"]


def test_thinking_is_apart_from_the_answer(thinker):
    thinker.replies["why?"] = "<think>Let me see.</think>Because."
    with client_of(thinker) as client:
        reply = ask(client, "why?", think=True)
        assert (reply.message.thinking, reply.message.content) == ("Let me see.", "Because.")
        pieces = list(ask(client, "why?", think="low", stream=True))
        assert "".join(piece.message.thinking or "" for piece in pieces) == "Let me see."
        assert "".join(piece.message.content for piece in pieces) == "Because."
        reply = client.generate(model="scripted", prompt="why?", think=True)
        assert (reply.thinking, reply.response) == ("Let me see.", "Because.")
        reply = client.generate(model="scripted", prompt="why?", think=False)
        assert not reply.thinking
        assert reply.response.endswith("Because.")


def test_a_template_is_told_whether_to_think(thinker):
    with client_of(thinker) as client:
        for asked in (ask, lambda client, **more: client.generate("scripted", "here", **more)):
            with_it, without = (asked(client, think=think) for think in (True, False))
            grown = with_it.prompt_eval_count - without.prompt_eval_count
            assert grown == len("<think></think>")


@pytest.mark.parametrize(
    ("think", "variables"),
    [
        (None, {}),
        (False, {"enable_thinking": False}),
        (True, {"enable_thinking": True}),
        ("low", {"enable_thinking": True, "reasoning_effort": "low"}),
    ],
)
def test_templates_hear_whether_to_think(think, variables):
    asked = OllamaChatRequest.model_validate({"model": "any", "think": think})
    assert asked.extra == variables


def test_a_format_is_kept_to(server, client):
    server.replies["json?"] = '{"a": 1}'
    schema = {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}
    assert json.loads(ask(client, "json?", format="json").message.content) == {"a": 1}
    options = {"num_predict": 200}
    forced = ask(client, "json?", format=schema, options=options).message.content
    assert forced.lstrip().startswith("{")
    assert '"a"' not in forced[:20]
    for raw in (False, True):
        reply = client.generate("scripted", "x", raw=raw, format=schema, options=options)
        assert reply.response.lstrip().startswith("{")


def test_a_prompt_is_answered_as_a_conversation(server, client):
    reply = client.generate(model="scripted", prompt="here", system="Be brief.")
    assert reply.response == "You said: here"
    assert reply.done_reason == "stop"
    assert reply.eval_count == len("You said: here") + 1
    pieces = list(client.generate(model="scripted", prompt="here", stream=True))
    assert "".join(piece.response for piece in pieces) == "You said: here"
    assert [piece.done for piece in pieces[-2:]] == [False, True]


def test_a_system_message_is_read(server, client):
    short = client.generate(model="scripted", prompt="here").prompt_eval_count
    with_system = client.generate(model="scripted", prompt="here", system="Be brief.")
    assert with_system.prompt_eval_count > short + len("Be brief.")


def test_a_raw_prompt_is_gone_on_with(coder):
    coder.texts["1, 2,"] = " 3"
    with client_of(coder.server) as client:
        assert client.generate(model="scripted", prompt="1, 2,", raw=True).response == " 3"
        assert client.generate(model="scripted", prompt="1, 2,").response == " 3"
        with pytest.raises(ollama.ResponseError, match="system"):
            client.generate(model="scripted", prompt="1, 2,", raw=True, system="Be brief.")


def test_a_middle_is_filled_in_before_a_suffix(coder):
    coder.texts["def add("] = "a, b"
    with client_of(coder.server) as client:
        reply = client.generate(model="scripted", prompt="def add(", suffix="):\n")
    assert reply.response == "a, b"
    assert coder.asked().startswith("<prefix>def add(<suffix>):\n<middle>a, b")
    assert reply.done_reason == "stop"


def test_a_model_without_tokens_for_a_middle_says_so(client):
    with pytest.raises(ollama.ResponseError, match="no tokens to fill in") as told:
        client.generate(model="scripted", prompt="a", suffix="b")
    assert told.value.status_code == 400


def test_options_have_their_effect(client):
    reply = ask(client, options={"num_predict": 3})
    assert (reply.message.content, reply.done_reason) == ("You", "length")
    reply = ask(client, options={"stop": ["id:"], **ZERO})
    assert (reply.message.content, reply.done_reason) == ("You sa", "stop")
    assert ask(client, options={"num_predict": -1}).message.content == "You said: here"
    hot = {"temperature": 90.0, "seed": 5, "num_predict": 20}
    contents = [ask(client, options=hot | more).message.content for more in ({}, {}, {"seed": 6})]
    assert contents[0] == contents[1] != contents[2]
    assert ask(client, options=hot | {"top_k": 1}).message.content == "You said: here"


def test_a_wish_for_more_context_is_answered_with_what_there_is(client):
    content = ask(client, options={"num_ctx": 1 << 20, "num_predict": 3}).message.content
    assert content == ask(client, options={"num_predict": 3}).message.content


def test_log_probabilities_are_told_whole_and_streamed(client):
    whole = ask(client, logprobs=True, top_logprobs=2)
    assert len(whole.logprobs) == whole.eval_count
    first = whole.logprobs[0]
    assert (first.token, first.top_logprobs[0].token) == ("Y", "Y")
    assert first.logprob == first.top_logprobs[0].logprob <= 0
    assert len(first.top_logprobs) == 2
    streamed = ask(client, logprobs=True, top_logprobs=2, stream=True)
    scored = [each for piece in streamed for each in piece.logprobs or ()]
    assert scored == list(whole.logprobs)
    plain = client.generate("scripted", "here", logprobs=True)
    assert "".join(each.token for each in plain.logprobs).startswith(plain.response)
    assert not plain.logprobs[0].top_logprobs
    assert ask(client).logprobs is None


def test_options_become_what_the_engine_knows():
    fields = {
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.8,
        "min_p": 0.1,
        "repeat_penalty": 1.1,
        "presence_penalty": 0.2,
        "frequency_penalty": 0.3,
        "repeat_last_n": -1,
        "mirostat": 2,
        "mirostat_tau": 4.0,
        "mirostat_eta": 0.2,
        "typical_p": 0.7,
    }
    usual = Sampling(temperature=1, top_k=3)
    assert OllamaOptions.model_validate(fields).sampling(usual) == Sampling(
        *(0.5, 7, 0.8, 0.1, 1.1, 0.2, 0.3),
        mirostat=2,
        mirostat_tau=4.0,
        mirostat_eta=0.2,
        typical=0.7,
    )
    assert OllamaOptions.model_validate({"seed": None, "top_k": None}).sampling(usual) == usual
    assert OllamaOptions.model_validate({"seed": -1}).own_seed is None


@pytest.mark.parametrize(
    "option",
    [
        {"mirostat": 5},
        {"tfs_z": 0.5},
        {"unheard_of": 1},
        {"top_p": 2.0},
    ],
)
def test_an_option_that_nobody_implements_is_refused_by_its_name(strict, option):
    name = next(iter(option))
    with client_of(strict) as client, pytest.raises(ollama.ResponseError, match=name) as told:
        ask(client, options=option)
    assert told.value.status_code == 400


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("chat", {"messages": [{**HERE[0], "images": ["aGVsbG8="]}]}, "pictures"),
        ("chat", {"messages": HERE, "format": "xml"}, "format"),
        ("chat", {"messages": HERE, "top_logprobs": 2}, "top_logprobs"),
        ("chat", {"messages": [{"role": "clown", "content": ""}]}, "role"),
        ("generate", {"prompt": "a", "template": "Say: {{ .Prompt }}"}, "template"),
        ("generate", {"prompt": "a", "images": ["aGVsbG8="]}, "pictures"),
        ("generate", {"prompt": "a", "suffix": "b", "system": "c"}, "system"),
        ("show", {}, "model"),
    ],
)
def test_what_nobody_implements_is_refused_by_its_name(strict, path, body, named):
    model = {} if path == "show" else {"model": "scripted"}
    reply = strict.client.post(f"/api/{path}", json=model | body)
    assert reply.status_code == 400
    assert list(reply.json()) == ["error"]
    assert named in reply.json()["error"]


def test_null_is_as_good_as_nothing(server):
    nothing = dict.fromkeys(("suffix", "system", "template", "context", "images", "options"))
    body = {"model": "scripted", "prompt": "here", "stream": False, **nothing}
    reply = server.client.post("/api/generate", json=body)
    assert reply.json()["response"] == "You said: here"


@pytest.mark.parametrize(
    ("keep_alive", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        (90, 90),
        ("1.5s", 1.5),
        ("300ms", 0.3),
        (-1, math.inf),
        ("-1m", math.inf),
        ("9" * 400, math.inf),
        ("0s", 0),
        (0, 0),
        ("5 minutes", None),
        ("soon", None),
        ("", None),
        (True, None),
        ([5], None),
        (None, None),
    ],
)
def test_a_client_says_how_long_a_model_stays(keep_alive, seconds):
    assert GenerateRequest(model="m", keep_alive=keep_alive).keep_alive == seconds


def test_the_time_that_a_client_asked_for_is_listed_and_others_may_not_choose_it():
    for manage in (True, False):
        server = Server(policy=ServerPolicy(manage=manage))
        body = {"model": "scripted", "prompt": "hi", "keep_alive": "90s", "stream": False}
        assert server.client.post("/api/generate", json=body).is_success
        [listed] = server.client.get("/api/ps").json()["models"]
        ends = datetime.fromisoformat(listed["expires_at"])
        left = (ends - datetime.now(UTC)).total_seconds()
        assert (60 < left <= 90) if manage else ends.year == 9999
        assert listed["pinned"] is False
        server.close()


def test_nothing_to_answer_loads_the_model(client):
    reply = client.generate(model="scripted", keep_alive="5m")
    assert reply.done
    assert reply.done_reason == "load"
    assert reply.response == ""
    reply = client.chat(model="scripted", messages=[])
    assert reply.done
    assert reply.done_reason == "load"
    assert reply.message.content == ""
    [piece] = client.generate(model="scripted", stream=True)
    assert piece.done_reason == "load"


def test_a_model_that_is_not_there_is_told_if_the_server_is_strict(client, strict):
    assert client.generate(model="other", prompt="here").response == "You said: here"
    with client_of(strict) as exact:
        for text in ("", "here"):
            with pytest.raises(ollama.ResponseError, match="no model 'other'") as told:
                exact.generate(model="other", prompt=text)
            assert told.value.status_code == 404


def test_models_can_be_looked_for(server, client):
    [listed] = client.list().models
    assert listed.model == "scripted:latest"
    assert listed.details.format == "gguf"
    assert listed.details.family == "llama"
    client.generate(model=listed.model)
    [running] = client.ps().models
    assert running.name == "scripted:latest"
    assert running.context_length == 8192


@pytest.mark.parametrize(
    ("parameters", "size"), [(630_167_424, "630.17M"), (7_615_616_512, "7.6B"), (0, "")]
)
def test_a_model_of_no_catalogue_says_how_many_parameters_its_file_has(parameters, size):
    sizes = (1, 1, 24, 14, 2, 896, 1000, 4096)
    read = Footprint(Path("coder"), "qwen2", "coder", "Q4_K_M", *sizes, "gpt2", None, parameters)
    offer = ServedOffer("coder", None, lambda: nullcontext(LETTERS), GREEDY, "any", "gguf")
    made = Server(beside=[replace(offer, footprint=read, family="qwen2")])
    try:
        with client_of(made) as client:
            [_, listed] = client.list().models
            shown = client.show("coder")
    finally:
        made.close()
    assert listed.details.parameter_size == shown.details.parameter_size == size
    assert shown.modelinfo.get("general.parameter_count", 0) == parameters


def test_what_a_model_can_do_is_shown_without_loading_it(thinker):
    fresh = Server(template=thinker.template)
    with client_of(fresh) as client, client_of(thinker) as other:
        shown = client.show("scripted")
        assert not client.ps().models
        other.generate("scripted", "load")
        assert shown.capabilities == other.show("scripted").capabilities
    fresh.close()


def test_what_a_model_can_do_is_shown(server, thinker, coder):
    for address, able, template in (
        (server, ["completion", "tools"], "{{ .Prompt }}"),
        (thinker, ["completion", "thinking"], "{{ .Prompt }}"),
        (coder.server, ["completion", "insert"], ".Suffix"),
    ):
        with client_of(address) as client:
            shown = client.show("scripted:latest")
        assert shown.capabilities == able
        assert shown.modelinfo["general.architecture"] == "llama"
        assert shown.modelinfo["llama.context_length"] == 8192
        assert template in shown.template
    assert server.client.post("/api/show", json={"name": "scripted"}).is_success


def test_clients_can_tell_that_somebody_is_there(server):
    assert server.client.get("/").text == "Ollama is running"
    assert server.client.head("/").status_code == 200
    version = server.client.get("/api/version").json()["version"]
    assert tuple(map(int, version.split("."))) >= (0, 6, 4)


def test_what_is_not_here_says_so(client):
    for ask_for in (
        lambda: client.push("scripted"),
        lambda: client.create("scripted"),
    ):
        with pytest.raises(ollama.ResponseError, match="this server has no /api/") as told:
            ask_for()
        assert told.value.status_code == 400


def test_a_stream_that_cannot_go_on_ends_in_an_error(out_of_time):
    with client_of(out_of_time.server) as client:
        stream = client.generate(model="scripted", prompt="long", raw=True, stream=True)
        with pytest.raises(ollama.ResponseError, match="longer than"):
            for _ in stream:
                pass


def test_a_model_is_unloaded_at_once_when_it_is_not_to_be_kept(coder):
    with client_of(coder.server) as client:
        client.generate("scripted", "load")
        assert client.generate("scripted", keep_alive=0).done_reason == "unload"
        assert not client.ps().models
        assert client.chat("scripted", [], keep_alive=0).done_reason == "unload"


def test_what_editors_read_of_a_model_is_there(server, client):
    shown = client.show("scripted")
    assert shown.modelinfo["general.basename"] == "scripted"
    lines = shown.parameters.splitlines()
    by_name = dict(re.fullmatch(r'(\S+)\s+((?:".*")|\S+)', line).groups() for line in lines)
    assert by_name["num_ctx"] == "8192"
    [listed] = client.list().models
    assert re.fullmatch("[0-9a-f]{64}", listed.digest)
    client.generate("scripted", "load", keep_alive=-1)
    [running] = client.ps().models
    assert running.expires_at.year == 9999
    assert running.size_vram == 0
