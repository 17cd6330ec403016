"""What requests say that changes nothing is taken and told; a strict server refuses it."""

from __future__ import annotations

import logging
from dataclasses import replace

import anthropic.types.beta.message_create_params
import openai.types.chat.completion_create_params
import openai.types.completion_create_params
import openai.types.responses.response_create_params
import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.requests.leniency import MAX_HEADER, header
from localspec.apps.server.requests.sampling import SamplingFields
from localspec.apps.server.safety import Rules
from localspec.core.sampling.parameters import PARAMETERS, Sampling
from tests.apps.server.scripted import Bytes, Server

CHAT = "/v1/chat/completions"
HERE = [{"role": "user", "content": "here"}]
TOLD = "x-localspec-ignored"
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": {}}}


def ask(server, path=CHAT, headers=None, **more):
    asked = {
        CHAT: {"messages": HERE},
        "/api/chat": {"model": "scripted", "messages": HERE, "stream": False},
    }
    asked["/v1/messages"] = {"messages": HERE, "max_tokens": 99}
    cold = {} if path == "/api/chat" else {"temperature": 0}
    body = asked.get(path, {}) | cold | more
    return server.client.post(path, json=body, headers=headers)


def told(answer):
    assert answer.status_code == 200, answer.text
    return [name for name in answer.headers.get(TOLD, "").split(", ") if name]


def refused(answer):
    assert answer.status_code == 400, answer.text
    return answer.text


@pytest.mark.parametrize(
    ("path", "more", "names"),
    [
        (CHAT, {"num_ctx": 4096, "plugins": [{"id": "web"}]}, ["num_ctx", "plugins"]),
        (
            CHAT,
            {"messages": [{**HERE[0], "cot_id": 1}, {**HERE[0], "cot_id": 2}]},
            ["messages.cot_id"],
        ),
        (CHAT, {"messages": [*HERE, {"role": "critic", "content": ""}]}, ["messages.role.critic"]),
        (CHAT, {"tools": [FUNCTION, {"type": "web_search"}]}, ["tools.web_search"]),
        (CHAT, {"smoothing_factor": 2, "smoothing_curve": 1.7}, ["smoothing_factor"]),
        (CHAT, {"mirostat": 2, "dry_base": 1.7, "nsigma": -1, "adaptive_target": -1}, []),
        (CHAT, {"samplers": ["top_k", "unheard_of"]}, ["samplers.unheard_of"]),
        (CHAT, {"top_logprobs": 3}, ["top_logprobs"]),
        (CHAT, {"user": 5, "metadata": "odd", "store": "x", "ttl": None}, []),
        (CHAT, {"mirostat": 0, "typical_p": 1, "repeat_last_n": 64, "lora": []}, []),
        ("/v1/messages", {"speed": "fast", "container": "c"}, ["speed", "container"]),
        ("/api/chat", {"options": {"num_gqa": 8, "num_gpu": 1}}, ["options.num_gqa"]),
        ("/api/chat", {"options": {"top_p": 2.0}}, ["options.top_p"]),
        ("/v1/responses", {"input": "here", "truncation": "auto"}, ["truncation"]),
    ],
)
def test_what_changes_nothing_is_told_in_a_header_and_refused_by_a_strict_server(
    server, strict, path, more, names
):
    assert sorted(told(ask(server, path, **more))) == sorted(names)
    if names:
        assert any(name in refused(ask(strict, path, **more)) for name in names)
    else:
        assert told(ask(strict, path, **more)) == []


def test_a_stream_tells_it_too(server):
    assert told(ask(server, stream=True, num_ctx=4096)) == ["num_ctx"]


def test_it_is_logged_once_for_each_client_and_field_and_counted(server, caplog):
    caplog.set_level(logging.INFO, "localspec.server")
    for client in ("one/1.0", "one/2.0 extra", "one/1.0", "evil\x1b[31m/1"):
        ask(server, headers={"user-agent": client}, flavour="sweet")
    lines = [r.getMessage() for r in caplog.records if "flavour" in r.getMessage()]
    assert [line.split()[0] for line in lines] == ["one/1.0", "one/2.0", "evil?31m/1"]
    counted = server.client.get("/metrics").text
    assert 'localspec_ignored_fields_total{field="flavour"} 4.0' in counted


def test_names_that_clients_make_up_cost_little(server, caplog):
    caplog.set_level(logging.INFO, "localspec.server")
    for part in range(4):
        more = {f"made up {part}.{number}\r\nx: y": 1 for number in range(500)}
        answer = ask(server, **more)
        assert len(answer.headers[TOLD]) <= MAX_HEADER + len(", ...")
        assert answer.headers[TOLD].endswith(", ...")
        assert "x" not in answer.headers
    assert sum("made?up" in record.getMessage() for record in caplog.records) <= 1000
    metrics = server.client.get("/metrics").text
    assert metrics.count("localspec_ignored_fields_total{") <= 201
    assert 'field="(others)"' in metrics


def test_a_header_has_each_name_once_and_only_safe_ones():
    assert header(["b", "a", "b", "c d\n", "\ud800é"]) == "b, a, c?d?, ?"
    assert len(header(["x" * 1000])) == 64
    assert header(["", "a", ""]) == "?, a"


@pytest.mark.parametrize(
    ("path", "more", "named"),
    [
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "image_url"),
        (CHAT, {"messages": [{**HERE[0], "images": ["aGk="]}]}, "pictures"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "audio"),
        (CHAT, {"tools": [{"type": "web_search"}], "tool_choice": "required"}, "give functions"),
        (CHAT, {"tools": [FUNCTION], "tool_choice": "clock"}, "'clock'"),
        (CHAT, {"modalities": ["audio"]}, "modalities"),
        (CHAT, {"grammar": "root ::= ("}, "GBNF"),
        (CHAT, {"response_format": {"type": "json_schema"}}, "schema"),
        (CHAT, {"temperature": -1}, "at least 0"),
        (CHAT, {"temperature": "hot"}, "'hot'"),
        (CHAT, {"temperature": True}, "temperature"),
        (CHAT, {"top_p": 1.5}, "at most 1"),
        ("/v1/responses", {"input": [{"type": "item_reference", "id": "x"}]}, "'x'"),
        (CHAT, {"guided_json": "auto"}, "schema is not JSON"),
        (CHAT, {"guided_json": "[" * 100_000}, "schema is not JSON"),
    ],
)
def test_what_changes_the_meaning_stays_an_error_with_the_way_out(server, path, more, named):
    answer = ask(server, path, **more)
    assert answer.status_code in (400, 404)
    assert named in answer.text


@pytest.mark.parametrize(
    ("path", "more", "most"),
    [
        (CHAT, {"messages": HERE}, 2),
        ("/v1/completions", {"prompt": "x"}, 2),
        ("/v1/responses", {"input": "x"}, 2),
        ("/v1/messages", {"messages": HERE, "max_tokens": 3}, 1),
    ],
)
def test_a_temperature_has_the_bounds_of_its_api(server, path, more, most):
    body = {"max_tokens": 3, "max_output_tokens": 16, **more}
    if path != "/v1/responses":
        del body["max_output_tokens"]
    assert server.client.post(path, json=body | {"temperature": most}).status_code == 200
    answer = server.client.post(path, json=body | {"temperature": most + 0.1})
    assert answer.status_code == 400
    assert f"temperature is {most + 0.1:g}; it must be at least 0 and at most {most}" in answer.text


def test_values_out_of_bounds_are_clamped_where_the_peers_clamp(server):
    class Clamped(SamplingFields):
        clamps = True

    for each in PARAMETERS:
        low = each.low if each.off is None else each.neutral
        for given, found in ((-1e9, low), (1e30, each.high)):
            for name in each.names:
                clamped = Clamped.model_validate({name: given})
                assert each.get(clamped.sampling(Sampling())) == found
                assert list(clamped.ignored()) == [name]
    predicted = {"num_predict": -2, "num_ctx": 1 << 40, "seed": -1, "stop": ["", None]}
    answer = ask(server, "/api/chat", options=predicted)
    assert answer.json()["message"]["content"] == "You said: here"
    assert told(answer) == ["options.num_ctx"]


def test_parameters_are_read_by_all_their_names_also_from_texts():
    for each in PARAMETERS:
        middle = (max(each.low, 0) + min(each.high, 2)) / 2
        for name in (*each.names, *each.aliases):
            sampling = SamplingFields.model_validate({name: str(middle)}).sampling(Sampling())
            assert each.get(sampling) == (int(middle) if each.whole else middle)
    both = SamplingFields.model_validate(
        {"repeat_penalty": 1.5, "repetition_penalty": 1.2, "top_k": -1}
    )
    assert both.sampling(Sampling()) == Sampling(repetition=1.2)
    none = SamplingFields.model_validate({"repeat_penalty": 1.5, "repeat_last_n": 0})
    assert not none.sampling(Sampling(presence=1)).penalises


@pytest.mark.parametrize(
    ("wishes", "found"),
    [
        ({"min_temp": 0.5, "max_temp": 1.5}, Sampling(1.0, dynatemp_range=0.5)),
        ({"dynatemp_low": 0.25, "dynatemp_high": 0.75}, Sampling(0.5, dynatemp_range=0.25)),
        ({"dynatemp_low": 1, "dynatemp_high": 1, "temperature": 0.3}, Sampling(0.3)),
        ({"dynatemp_range": 0.5, "dynamic_temperature": False}, Sampling()),
        ({"dry_sequence_breakers": ["\n", ""]}, Sampling(dry_breakers=("\n",))),
        ({"dry_sequence_breakers": '["a", "b"]'}, Sampling(dry_breakers=("a", "b"))),
        ({"dry_sequence_breakers": '"a", "b"'}, Sampling(dry_breakers=("a", "b"))),
        ({"dry_sequence_breakers": ""}, Sampling()),
        ({"dry_sequence_breakers": []}, Sampling(dry_breakers=())),
        ({"nsigma": -1, "adaptive_target": -1, "typ_p": 0.5}, Sampling(typical=0.5)),
        ({"dry_base": 0, "mirostat_mode": 2}, Sampling(mirostat=2)),
        ({"samplers": "tt"}, Sampling(samplers=("temperature",))),
    ],
)
def test_samplers_are_read_in_the_words_of_several_servers(wishes, found):
    asked = SamplingFields.model_validate(wishes)
    assert asked.sampling(Sampling()) == found
    assert list(asked.ignored()) == []


@pytest.mark.parametrize(
    "wishes",
    [
        {"dry_sequence_breakers": ["x"] * 200},
        {"dry_sequence_breakers": ["x" * 200]},
        {"dry_sequence_breakers": "x, y"},
        {"dry_sequence_breakers": [3]},
        {"xtc_probability": 2},
        {"mirostat": 3},
        {"dry_base": 0.5},
        {"dynatemp_low": -1, "dynatemp_high": 1},
    ],
)
def test_samplers_that_cannot_be_are_refused_by_name(server, wishes):
    assert next(iter(wishes)) in refused(ask(server, CHAT, **wishes))


@pytest.mark.parametrize(
    ("bias", "found"),
    [
        ({"12": -100}, {12: -100}),
        ([[12, -5], [13, False]], {12: -5, 13: -1000}),
        ([], {}),
        ({"ab": 500, "7": False, "8": None, "9": True}, {97: 100, 98: 100, 7: -1000}),
        ([["c", -1], ["50256", -2], ["12", 3]], {99: -1, 12: 3}),
        (False, {}),
    ],
)
def test_a_bias_is_read_in_the_words_of_both_servers(bias, found):
    assert SamplingFields.model_validate({"logit_bias": bias}).bias(Bytes()) == found


@pytest.mark.parametrize("name", ["repetition_penalty", "repeat_penalty"])
def test_a_repetition_of_zero_is_none(name):
    asked = SamplingFields.model_validate({name: 0})
    assert asked.sampling(Sampling(repetition=1.3)).repetition == 1
    assert list(asked.ignored()) == []


@pytest.mark.parametrize(
    "more",
    [
        {"grammar": 'root ::= "yes" | "no"'},
        {"guided_choice": ["yes", "no"]},
        {"guided_choice": ["no", *map(str, range(2500))]},
        {"guided_regex": "yes|no"},
        {"structured_outputs": {"choice": ["yes", "no"]}},
    ],
)
def test_a_reply_follows_the_grammars_of_llama_cpp_and_vllm(server, more):
    server.replies["really?"] = "no doubt"
    asked = [{"role": "user", "content": "really?"}]
    body = ask(server, messages=asked, **more).json()["choices"][0]["message"]["content"]
    assert body == "no"


@pytest.mark.parametrize(
    "path", ["/api/v0/models", "/api/v0/chat/completions", "/api/v0/embeddings", "/api/v1/chat"]
)
def test_a_path_of_an_api_that_is_not_offered_is_told(server, path):
    answer = server.client.post(path, json={"model": "m", "messages": HERE, "input": "here"})
    assert answer.status_code == 404
    assert f"there is no {path} here" in answer.text


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("/chat/completions", CHAT),
        ("/v1/chat/completions/", CHAT),
        ("/v1/v1/chat/completions", CHAT),
        ("//v1//chat/completions", CHAT),
        ("/api/v1/chat/completions", CHAT),
        ("/openai/v1/chat/completions", CHAT),
        ("/v1/v1/messages", "/v1/messages"),
        ("/messages", "/v1/messages"),
        ("/v1/api/chat", "/api/chat"),
        ("/api/chat/", "/api/chat"),
    ],
)
def test_paths_are_found_as_clients_write_them(server, asked, meant):
    assert (
        ask(server, asked, messages=HERE, model="m", max_tokens=50, stream=False).status_code == 200
    )
    body = {"messages": HERE, "model": "m", "max_tokens": 50, "stream": False}
    one, other = (server.client.post(path, json=body).json() for path in (asked, meant))
    assert one.keys() == other.keys()


@pytest.mark.parametrize(
    "path", ["/v1/nothing", "/v1" * 5000, "/x" + "/" * 5000, "/v1/v1/v1/v1/v1/models"]
)
def test_paths_that_mean_nothing_are_not_found(server, path):
    assert server.client.get(path).status_code == 404


def test_nothing_that_is_taken_switches_off_safety():
    keyed = Server(policy=ServerPolicy(Rules(keys=("right",), body_bytes=2000)))
    try:
        more = {"api_key": "right", "authorization": "Bearer right", "strict": False, "host": "*"}
        for path in ("/v1/chat/completions", "/chat/completions/", "//health", "/v1/v1/models"):
            assert ask(keyed, path, **more).status_code == 401
            assert keyed.client.get(path, params=more).status_code == 401
        key = {"x-api-key": "right"}
        for path in (CHAT, "/v1/v1/chat/completions", "/chat/completions/"):
            assert (
                ask(keyed, path, headers={**key, "host": "evil.example"}, **more).status_code == 403
            )
            assert (
                ask(keyed, path, headers=key, padding="x" * 3000, body_limit=9e9).status_code == 413
            )
        assert ask(keyed, headers=key, **more).status_code == 200
    finally:
        keyed.close()


def test_of_several_models_the_first_answers_for_a_name_that_is_not_known():
    made = Server()
    try:
        host = made.app.state.host
        host.add(replace(host.offers.named("scripted"), name="other", aliases=("gpt-4o",)))
        for name, names in (("gpt-4o", []), ("", []), ("gpt-5", ["model"])):
            assert told(ask(made, model=name)) == names
        assert ask(made, model="gpt-5").json()["model"] == "scripted"
        assert made.client.get("/v1/models/gpt-5").status_code == 404
    finally:
        made.close()


TEXT = {"type": "text", "text": "here"}
USE = {"id": "1", "function": {"name": "weather", "arguments": None}}
CUSTOM = {"id": "1", "type": "custom", "custom": {"name": "patch", "input": "x"}}


@pytest.mark.parametrize(
    ("path", "more"),
    [
        (CHAT, {"messages": [{"role": "User", "content": TEXT}]}),
        (CHAT, {"messages": [{"role": "user", "content": ["here"]}]}),
        (CHAT, {"messages": [{"role": "assistant", "tool_calls": [USE]}, *HERE]}),
        (CHAT, {"messages": [{"role": "assistant", "tool_calls": [CUSTOM]}, *HERE]}),
        (CHAT, {"messages": [{"role": "tool", "content": {"a": 1}}, *HERE]}),
        (CHAT, {"response_format": "text", "top_p": "", "logprobs": 0, "thinking": True}),
        (CHAT, {"response_format": {}, "prediction": {}, "reasoning": "off", "stop": ["", None]}),
        ("/v1/responses", {"input": ["here"], "reasoning": "low", "tools": [FUNCTION]}),
        ("/v1/messages", {"tool_choice": "auto", "thinking": False, "stop_sequences": [""]}),
        ("/v1/messages", {"messages": [{"role": "developer", "content": "Be brief."}, *HERE]}),
        ("/api/chat", {"options": {"temperature": "0.0", "num_ctx": "4096"}, "think": ""}),
    ],
)
def test_odd_forms_are_read_as_they_are_meant(server, path, more):
    answer = ask(server, path, **more)
    assert answer.status_code == 200, answer.text
    assert "You said: here" in answer.text


LIBRARIES = {
    CHAT: openai.types.chat.completion_create_params.CompletionCreateParamsBase,
    "/v1/completions": openai.types.completion_create_params.CompletionCreateParamsBase,
    "/v1/responses": openai.types.responses.response_create_params.ResponseCreateParamsBase,
    "/v1/messages": anthropic.types.beta.message_create_params.MessageCreateParamsBase,
}


@pytest.mark.parametrize("path", LIBRARIES)
def test_null_is_as_good_as_nothing_for_all_that_a_library_knows(server, path):
    needed = {"messages", "input", "prompt", "max_tokens", "model", "temperature"}
    nulls = dict.fromkeys(LIBRARIES[path].__annotations__.keys() - needed)
    fields = {"/v1/responses": {"input": "here"}, "/v1/completions": {"prompt": "here"}}
    answer = ask(server, path, max_tokens=50, **(nulls | fields.get(path, {})))
    assert answer.status_code == 200, answer.text
