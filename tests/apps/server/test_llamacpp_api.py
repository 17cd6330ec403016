"""The API of llama.cpp's server, as editors and scripts use it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from localspec.apps.server.llamacpp.completion_request import LlamaCompletionRequest
from localspec.apps.server.llamacpp.lines import IndentedBlock
from localspec.apps.server.requests.chat_request import ChatRequest
from localspec.core.sampling.parameters import Sampling
from tests.apps.server.coder import Coder
from tests.apps.server.scripted import END

BLOCK = "    total = 0\n\n    return total\nprint(total)\n"
EDITOR = {  # as an editor asks while somebody types
    "id_slot": 0,
    "input_prefix": "def f():\n",
    "input_suffix": "\n# end\n",
    "input_extra": [{"text": "import os", "time": [5, 7], "filename": "a.py"}],
    "prompt": "    to",
    "n_predict": 128,
    "stop": [],
    "n_indent": 4,
    "top_k": 40,
    "top_p": 0.99,
    "stream": False,
    "samplers": ["top_k", "top_p", "infill"],
    "cache_prompt": True,
    "t_max_prompt_ms": 500,
    "t_max_predict_ms": 60000,
}
SHOWN = [
    "content",
    "timings/prompt_n",
    "timings/prompt_ms",
    "timings/prompt_per_token_ms",
    "timings/prompt_per_second",
    "timings/predicted_n",
    "timings/predicted_ms",
    "timings/predicted_per_token_ms",
    "timings/predicted_per_second",
    "truncated",
    "tokens_cached",
]


@pytest.fixture(scope="module")
def coder():
    made = Coder()
    made.texts |= {
        "1, 2,": " 3, 4",
        "def f():\n    to": BLOCK.removeprefix("    to"),
        "lines": "\nx = 1\ny = 2\n" + "z = 3\n" * 400,
    }
    yield made
    made.server.close()


def post(coder, path, **body):
    return coder.server.client.post(f"/{path}", json=body)


def complete(coder, prompt="1, 2,", **wishes):
    reply = post(coder, "completion", prompt=prompt, **wishes)
    assert reply.status_code == 200, reply.text
    return reply.json()


def infill(coder, **wishes):
    reply = post(coder, "infill", **(EDITOR | wishes))
    assert reply.status_code == 200, reply.text
    return reply.json()


def events(reply):
    assert reply.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line.removeprefix("data: ")) for line in reply.text.split("\n\n") if line]


def test_a_middle_is_filled_in_up_to_the_end_of_its_block(coder):
    completion = infill(coder)
    assert completion["content"] == "tal = 0\n\n    return total"
    assert completion["stop"]
    assert completion["stop_type"] == "limit"
    head = "<file>a.py\nimport os\n<file>current\n"
    assert coder.asked().startswith(
        f"{head}<prefix>def f():\n    to<suffix>\n# end\n<middle>tal = 0"
    )


def test_a_middle_ends_where_the_model_says_so(coder):
    completion = infill(coder, n_indent=0)
    assert completion["content"] == BLOCK.removeprefix("    to")
    assert completion["stop_type"] == "eos"
    assert completion["tokens_predicted"] == len(completion["content"]) + 1
    assert (
        completion["tokens_evaluated"] + completion["tokens_predicted"] - 1
        == completion["tokens_cached"]
    )
    assert completion["model"] == "scripted"
    assert not completion["truncated"]


def test_a_middle_streams_and_says_the_same(coder):
    whole = infill(coder)["content"]
    *pieces, end = events(post(coder, "infill", **(EDITOR | {"stream": True})))
    assert "".join(piece["content"] for piece in pieces) == whole
    assert len(pieces) > 1
    assert not any(piece["stop"] for piece in pieces)
    assert end["stop"]
    assert end["content"] == ""
    assert end["timings"]["predicted_n"] > 0


def test_only_what_an_editor_wants_to_see_is_told(coder):
    completion = infill(coder, response_fields=SHOWN)
    assert list(completion) == SHOWN
    numbers = [value for name, value in completion.items() if name.startswith("timings/")]
    assert all(isinstance(value, int | float) for value in numbers)
    assert infill(coder, response_fields=["", "no/thing", "content/tal", "stop/x"]) == {}


def test_a_prompt_is_read_ahead_and_then_held(coder):
    extra = [{"text": "x" * 3000, "filename": "held.py", "time": 1.5}]
    ahead = {"input_prefix": "", "input_suffix": "", "input_extra": extra, "prompt": ""}
    silent = {"n_predict": 0, "samplers": [], "temperature": 0.0, "t_max_prompt_ms": 1}
    completion = infill(coder, **ahead, **silent, t_max_predict_ms=1)
    assert (completion["content"], completion["tokens_predicted"], completion["stop_type"]) == (
        "",
        0,
        "limit",
    )
    assert infill(coder, **ahead, **silent, response_fields=[""]) == {}
    timings = infill(coder, input_extra=extra)["timings"]
    assert timings["cache_n"] > 3000 > 100 > timings["prompt_n"]


def test_of_too_much_around_a_middle_the_nearest_stays(coder):
    extra = [{"text": "e" * 4000}, {"text": "f" * 500, "filename": None}]
    wide = {"input_prefix": "p" * 9000, "input_suffix": "s" * 9000, "input_extra": extra}
    completion = infill(coder, **wide, n_predict=200)
    assert 7000 < completion["tokens_evaluated"] <= 8192 - 200
    assert infill(coder, **wide, n_predict=-1)["tokens_evaluated"] <= 4096


def test_a_model_without_tokens_for_a_middle_says_so(server):
    reply = server.client.post("/infill", json={"input_prefix": "a", "input_suffix": "b"})
    assert reply.status_code == 400
    assert "no tokens to fill in" in reply.json()["error"]["message"]


def test_a_text_is_gone_on_with(coder):
    completion = complete(coder)
    assert completion["content"] == " 3, 4"
    assert completion["stop_type"] == "eos"
    assert completion["stopping_word"] == ""
    assert complete(coder, n_predict=3)["content"] == " 3,"
    assert complete(coder, n_predict=3)["stop_type"] == "limit"
    assert complete(coder, n_predict=0)["content"] == ""


def test_tokens_and_texts_between_them_are_a_prompt_too(coder):
    assert complete(coder, list(b"1, 2,"))["content"] == " 3, 4"
    assert complete(coder, [*b"1,", " 2", *b","])["content"] == " 3, 4"
    assert complete(coder, ["1", *b", 2,"])["content"] == " 3, 4"


@pytest.mark.parametrize(
    "prompt", ["", [], [-1], [1 << 40], [999], [[1], []], None, [1.5], ["a"] * 17]
)
def test_a_prompt_that_is_none_is_refused(coder, prompt):
    reply = post(coder, "completion", prompt=prompt)
    assert reply.status_code == 400
    assert "prompt" in reply.json()["error"]["message"]


def test_a_stop_text_ends_a_reply_and_is_named(coder):
    completion = complete(coder, stop=["zzz", ", 4", ","])
    assert (completion["content"], completion["stop_type"]) == (" 3", "word")
    assert completion["stopping_word"] == ","
    completion = complete(coder, stop=[", 4"], stream=False)
    assert (completion["content"], completion["stopping_word"]) == (" 3", ", 4")


def test_a_schema_is_kept_to(coder):
    schema = {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}
    completion = complete(coder, json_schema=schema, n_predict=50)
    assert completion["content"].lstrip().startswith("{")


def test_a_reply_is_cut_at_its_time_once_a_line_is_complete(coder):
    completion = complete(coder, "lines", t_max_predict_ms=1)
    assert completion["stop_type"] == "limit"
    assert "\n" in completion["content"]
    assert len(completion["content"]) < completion["tokens_predicted"] + 5 < 2000
    assert complete(coder, "1, 2,", t_max_predict_ms=1)["content"] == " 3, 4"


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"grammar": 'root ::= "a'}, "grammar"),
        ({"tfs_z": 0.5}, "tfs_z"),
        ({"min_keep": 3}, "min_keep"),
        ({"samplers": ["unheard_of"]}, "samplers"),
        ({"lora": [{"id": 0, "scale": 0.5}]}, "lora"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_what_nobody_implements_is_refused_by_its_name(strict, wish, named):
    reply = strict.client.post("/completion", json={"prompt": "1, 2,"} | wish)
    assert reply.status_code == 400
    assert named in reply.json()["error"]["message"]


def test_what_does_nothing_is_harmless(coder):
    nothing = {
        "repeat_last_n": 64,
        "repeat_penalty": 1.0,
        "typical_p": 1,
        "xtc_probability": 0,
        "xtc_threshold": 0.1,
        "dry_multiplier": 0,
        "dry_base": 1.75,
        "dynatemp_range": 0,
        "mirostat": 0,
        "n_probs": 0,
        "min_keep": 0,
        "lora": [],
        "grammar": None,
        "json_schema": None,
        "seed": -1,
        "timings_per_token": False,
    }
    assert complete(coder, **nothing)["content"] == " 3, 4"


def test_only_samplers_that_are_listed_are_used():
    def found(**wishes):
        fields = {"prompt": "", "temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1}
        asked = LlamaCompletionRequest.model_validate(fields | {"repeat_penalty": 1.5} | wishes)
        return asked.sampling(Sampling(temperature=1.0))

    def expected(*samplers, **parameters):
        return Sampling(**{"temperature": 1.0, **parameters}, samplers=samplers)

    assert found() == Sampling(0.7, 5, 0.9, 0.1, 1.5)
    assert found(samplers=[]) == expected()
    assert found(samplers=["penalties", "top-k", "temp"]) == expected(
        "penalties", "top_k", "temperature", temperature=0.7, top_k=5, repetition=1.5
    )
    assert found(samplers="min_p;top_p;warmth") == expected("min_p", "top_p", top_p=0.9, min_p=0.1)
    assert found(samplers=["top_k", "top_p", "infill"]).greedy
    assert not found(samplers=["top_k", "top_p"]).greedy


def test_a_seed_says_the_same_again(coder):
    hot = {"temperature": 90.0, "n_predict": 20}
    contents = [complete(coder, seed=seed, **hot)["content"] for seed in (5, 5, 6)]
    assert contents[0] == contents[1] != contents[2]
    assert complete(coder, seed=5, **hot)["generation_settings"]["seed"] == 5


def test_texts_become_tokens_and_tokens_texts(coder, server):
    body = post(coder, "tokenize", content="<pad>").json()["tokens"]
    assert body == [261]
    assert len(post(coder, "tokenize", content="<pad>", parse_special=False).json()["tokens"]) == 5
    body = post(coder, "tokenize", content="aé", with_pieces=True).json()["tokens"]
    assert body == [
        {"id": 97, "piece": "a"},
        {"id": 195, "piece": [195]},
        {"id": 169, "piece": [169]},
    ]
    tokens = post(coder, "tokenize", content="größe", add_special=True).json()["tokens"]
    assert post(coder, "detokenize", tokens=[*tokens, 261]).json()["content"] == "größe<pad>"
    assert post(coder, "detokenize", tokens=[]).json()["content"] == ""
    for tokens in ([262], [-1], ["a"]):
        assert post(coder, "detokenize", tokens=tokens).status_code == 400


def test_a_text_begins_with_the_start_token_where_that_is_wanted(coder):
    tokenizer = coder.server.model.tokenizer
    tokenizer.bos, tokenizer.starts = 260, True
    try:
        tokens = [
            post(coder, "tokenize", content="a", **{name: special}).json()["tokens"]
            for name in ("add_special", "add_special_tokens")
            for special in (False, True)
        ]
        assert complete(coder)["tokens_evaluated"] == 6
    finally:
        tokenizer.bos, tokenizer.starts = None, False
    assert tokens == [[97], [260, 97]] * 2


def test_an_evaluation_finds_the_tokens_at_the_ends_of_texts(server):
    body = server.client.get("/tokenizer_info").json()
    assert sorted(body) == ["bos_token", "chat_template", "eos_token"]
    assert body["eos_token"] == server.client.get("/props").json()["eos_token"]


def test_a_conversation_is_shown_as_its_model_reads_it(server):
    messages = [{"role": "user", "content": "here"}]
    tool = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    body = {"messages": messages}
    answer = server.client.post("/apply-template", json=body).json()["prompt"]
    assert answer == "<|im_start|>user\nhere<|im_end|>\n<|im_start|>assistant\n"
    answer = server.client.post("/apply-template", json=body | {"tools": [tool]}).json()["prompt"]
    assert "weather" in answer


def test_a_request_without_a_temperature_gets_the_models_sampling():
    makers = Sampling(temperature=0.7, top_k=20, top_p=0.8, repetition=1.05)

    def sampling(**fields):
        for kind in (LlamaCompletionRequest, ChatRequest):
            message = {"role": "user", "content": "a"}
            request = kind.model_validate({"prompt": "a", "messages": [message], **fields})
            yield request.sampling(makers)

    assert [*sampling()] == [*sampling(max_tokens=3)] == [makers] * 2
    assert [*sampling(temperature=1.0)] == [replace(makers, temperature=1.0)] * 2
    assert [*sampling(top_p=1)] == [replace(makers, top_p=1)] * 2
    assert [*sampling(temperature=0)] == [Sampling()] * 2
    assert [*sampling(temperature=0, repeat_penalty=1.2)] == [Sampling(repetition=1.2)] * 2


def test_the_sampling_that_a_model_is_asked_with_is_told(server):
    usual, (offer,) = Sampling(temperature=0.7, top_k=20), server.app.state.host.offers.values()
    server.app.state.host.offers["scripted"] = replace(offer, usual=usual)
    params = server.client.get("/props").json()["default_generation_settings"]["params"]
    server.app.state.host.offers["scripted"] = offer
    assert (params["temperature"], params["top_k"], params["min_p"]) == (0.7, 20, 0.0)


def test_a_server_tells_of_itself(server, coder):
    body = server.client.get("/props").json()
    assert body["default_generation_settings"]["n_ctx"] == 8192
    assert body["total_slots"] == 8
    assert body["model_alias"] == "scripted"
    assert "<|im_start|>" in body["chat_template"]
    assert not any(body["modalities"].values())
    caps = body["chat_template_caps"]
    assert (caps["supports_tools"], caps["supports_tool_calls"]) == (True, True)
    assert coder.server.client.get("/props").json()["chat_template_caps"] == {}
    assert server.client.post("/props", json={}).status_code == 501
    assert coder.server.client.get("/props").json()["chat_template"] == ""
    slots = server.client.get("/slots").json()
    assert [slot["id"] for slot in slots] == list(range(8))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one\n  two\n  three", "one\n  two\n  three"),
        ("one\n  two\n three", "one\n  two"),
        ("one\n  two\n\n   \n\tthree\n  four", "one\n  two"),
        ("one\n\n  two\n\n\n", "one\n\n  two\n\n\n"),
        ("  \n \n", "  \n \n"),
        ("\nx", ""),
        ("", ""),
    ],
)
def test_a_block_ends_before_the_first_line_that_is_indented_by_less(text, said):
    for size in range(1, len(text) + 2):
        block = IndentedBlock(2)
        pieces = [block.take(text[at : at + size]) for at in range(0, len(text), size)]
        assert "".join(pieces) + block.remaining_blanks() == said


def test_a_stream_that_cannot_go_on_ends_in_an_error(out_of_time):
    *_, last = events(post(out_of_time, "completion", prompt="long", stream=True))
    assert "longer than" in last["error"]["message"]


# What llama.vscode asks of a conversation when it edits a selection.
EDITING = {
    "messages": [{"role": "user", "content": "1, 2,"}],
    "stream": False,
    "cache_prompt": True,
    "samplers": "edkypmxt",
    "temperature": 0.8,
    "dynatemp_range": 0,
    "dynatemp_exponent": 1,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "typical_p": 1,
    "xtc_probability": 0,
    "xtc_threshold": 0.1,
    "repeat_last_n": 64,
    "repeat_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "dry_multiplier": 0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": -1,
    "max_tokens": -1,
    "timings_per_token": False,
}


def test_an_editor_asks_conversations_in_the_words_of_llama_cpp(server, strict):
    answer = server.client.post("/v1/chat/completions", json=EDITING)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]
    for wish, named in (
        ({"smoothing_factor": 0.8}, "smoothing_factor"),
        ({"samplers": "kQ"}, "samplers"),
    ):
        refused = strict.client.post("/v1/chat/completions", json=EDITING | wish)
        assert refused.status_code == 400
        assert named in refused.json()["error"]["message"]


def test_a_conversation_is_drawn_as_the_editor_says():
    asked = ChatRequest.model_validate(EDITING | {"repeat_penalty": 1.5})
    sampling = asked.sampling(Sampling(temperature=1.0))
    names = ("penalties", "dry", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
    assert sampling == Sampling(0.8, 40, 0.95, 0.05, 1.5, penalty_window=64, samplers=names)
    assert asked.token_limit is None
    asked = ChatRequest.model_validate(EDITING | {"samplers": "kt"})
    assert asked.sampling(Sampling()) == Sampling(0.8, 40, samplers=("top_k", "temperature"))


def test_tokens_and_their_log_probabilities_are_told_where_they_are_wanted(coder):
    wishes = {"n_probs": 2, "return_tokens": True, "n_predict": 3}
    completion = complete(coder, **wishes)
    assert len(completion["tokens"]) == len(completion["completion_probabilities"]) == 3
    for token, each in zip(
        completion["tokens"], completion["completion_probabilities"], strict=True
    ):
        assert each["id"] == token == each["top_logprobs"][0]["id"]  # it is greedy
        assert each["logprob"] == each["top_logprobs"][0]["logprob"] <= 0
        assert len(each["top_logprobs"]) == 2
    assert (
        b"".join(bytes(each["bytes"]) for each in completion["completion_probabilities"]).decode()
        == (completion["content"])
    )
    *pieces, _ = events(post(coder, "completion", prompt="1, 2,", stream=True, **wishes))
    assert [token for each in pieces for token in each["tokens"]] == completion["tokens"]
    listed = [one for each in pieces for one in each.get("completion_probabilities", ())]
    assert listed == completion["completion_probabilities"]
    assert "completion_probabilities" not in complete(coder, n_predict=3)


def test_strings_and_tokens_are_banned_in_a_middle_too(coder):
    assert "return" in infill(coder)["content"]
    assert "return" not in infill(coder, banned_strings=["RETURN"])["content"]
    assert "r" not in infill(coder, logit_bias=[["r", False]])["content"]


def test_ignore_eos_forbids_the_tokens_that_end_a_text(server):
    """As llama.cpp's server does. In OpenAI's API the text goes on behind them, as in vLLM's."""
    asked = {"prompt": "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n", "temperature": 0}
    asked |= {"n_predict": 20, "return_tokens": True}
    usual = server.client.post("/completion", json=asked).json()
    assert usual["stop_type"] == "eos"
    endless = server.client.post("/completion", json=asked | {"ignore_eos": True}).json()
    assert endless["stop_type"] == "limit"
    assert endless["tokens_predicted"] == 20
    assert END in usual["tokens"]
    assert END not in endless["tokens"]
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 20, "ignore_eos": True}
    other = server.client.post("/v1/chat/completions", json=body | {"temperature": 0}).json()
    assert other["usage"]["completion_tokens"] == 20
    assert other["choices"][0]["message"]["content"] == usual["content"]
