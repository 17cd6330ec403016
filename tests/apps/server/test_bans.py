"""Banned strings, biases and log-probabilities under every API, by the names of each."""

from __future__ import annotations

import json
import time

import pytest

CHAT = {"messages": [{"role": "user", "content": "here"}], "model": "scripted"}
TURN = "<|im_start|>user\nhere<|im_end|>\n<|im_start|>assistant\n"
APIS = {  # each with the field that holds its options
    "/v1/chat/completions": (CHAT, None),
    "/v1/responses": ({"input": "here"}, None),
    "/v1/messages": ({**CHAT, "max_tokens": 20}, None),
    "/api/chat": ({**CHAT, "stream": False}, "options"),
    "/api/generate": ({"model": "scripted", "prompt": "here", "stream": False}, "options"),
    "/completion": ({"prompt": TURN}, None),
    "/v1/completions": ({"prompt": "here"}, None),
    "/v1/fim/completions": ({"prompt": "here", "suffix": "", "max_tokens": 20}, None),
}
NAMES = ("banned_strings", "banned_tokens")
TEXTS = ("content", "text", "response", "delta")


def ask(server, path, **fields):
    body, options = APIS[path]
    more = {options: fields} if options else fields
    stream = fields.pop("stream", None)
    flow = {} if stream is None else {"stream": stream}
    return server.client.post(path, json={**body, **more, **flow})


def text_of(answer):
    """Join the texts of an answer, or of all events of a stream."""
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines()]
    return "".join(texts(json.loads(line)) for line in lines if line.startswith("{"))


def texts(value, name=""):
    match value:
        case dict():
            return "".join(texts(entry, key) for key, entry in value.items())
        case list():
            return "".join(texts(entry, name) for entry in value)
        case str():
            return value if name in TEXTS else ""
    return ""


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", [path for path in APIS if path.count("fim") == 0])
def test_a_banned_string_is_in_no_reply_of_any_api(server, path, name, stream):
    usual = text_of(ask(server, path, stream=stream))
    # Without a conversation the model says Y again and again.
    banned, left = ("SAID", "ou sai\0: here") if "You said: here" in usual else ("YYY", "YY\0YY\0")
    assert banned.lower() in usual.lower()
    text = text_of(ask(server, path, stream=stream, **{name: [banned, "", "\0\0never"]}))
    assert banned.lower() not in text.lower()
    assert left in text


def test_one_string_needs_no_list(server):
    assert "said" not in text_of(ask(server, "/v1/chat/completions", banned_strings="said"))


REFUSED = {
    "10,000 strings": (
        "banned_strings",
        lambda: [f"a {at}" for at in range(10_000)],
        "10,000 strings are banned; there may be 1,024",
    ),
    "1,000,000 strings": ("banned_strings", lambda: ["a"] * 10**6, "has 1,000,000 entries"),
    "1 MB": ("banned_strings", lambda: ["a" * 10**6], "1,000,000 bytes; it may have 256"),
    "a list": ("banned_strings", lambda: [["a"]], "banned_strings"),
    "an object": ("banned_strings", lambda: [{"a": 1}], "banned_strings"),
    "half a token": ("banned_tokens", lambda: [0.5], "banned_tokens"),
    "an object of tokens": ("banned_tokens", lambda: {"a": 1}, "banned_tokens"),
    "a word for tokens": ("custom_token_bans", lambda: ["a"], "custom_token_bans"),
    "5,000 digits": ("custom_token_bans", lambda: "9" * 5000, "custom_token_bans"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_banned_is_refused_by_name_within_a_second(server, case):
    name, make, message = REFUSED[case]
    begun = time.process_time()
    answer = ask(server, "/v1/chat/completions", **{name: make()})
    assert answer.status_code == 400
    assert message in answer.json()["error"]["message"]
    assert time.process_time() - begun < 1


def test_all_the_strings_that_there_may_be_take_bounded_time(server):
    begun = time.process_time()
    strings = ["a" * (at % 128) + f"{at:04}"[:2] for at in range(450)]
    text = text_of(ask(server, "/v1/chat/completions", banned_strings=[*strings, "said"]))
    assert "said" not in text
    assert time.process_time() - begun < 2


NEVER = [
    {"logit_bias": {"89": -100}},
    {"logit_bias": [[89, -100]]},
    {"logit_bias": {"89": False}},
    {"logit_bias": [[89, False]]},
    {"logit_bias": {"Y": False}},
    {"logit_bias": [["Y", False]]},
    {"banned_tokens": [89]},
    {"banned_tokens": "12, 89"},
    {"custom_token_bans": "12,89"},
]


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("wish", NEVER, ids=str)
def test_a_token_is_forbidden_in_every_form_under_every_api(server, path, wish):
    assert "Y" in text_of(ask(server, path))
    answer = ask(server, path, **wish)
    assert "Y" not in text_of(answer)
    assert "x-localspec-ignored" not in answer.headers


def test_a_token_that_is_never_to_come_does_not_come_at_any_temperature(server):
    fields = {"logit_bias": {str(token): False for token in range(256) if token != 90}}
    answer = ask(server, "/completion", temperature=20, n_predict=40, ignore_eos=True, **fields)
    assert set(answer.json()["content"]) == {"Z"}


def test_log_probabilities_go_by_llama_cpps_name_in_openais_api(server):
    named = ask(server, "/v1/chat/completions", logprobs=True, top_logprobs=2).json()
    ours = ask(server, "/v1/chat/completions", n_probs=2)
    assert ours.json()["choices"][0]["logprobs"] == named["choices"][0]["logprobs"]
    assert "x-localspec-ignored" not in ours.headers
    pieces = ask(server, "/v1/chat/completions", n_probs=2, stream=True).text.splitlines()
    chunks = [json.loads(line[6:]) for line in pieces if line.startswith("data: {")]
    listed = [chunk["choices"][0]["logprobs"] for chunk in chunks if chunk["choices"]]
    streamed = [entry for logprobs in listed if logprobs for entry in logprobs["content"]]
    assert streamed == named["choices"][0]["logprobs"]["content"]
    [plain] = ask(server, "/v1/completions", n_probs=2, max_tokens=3).json()["choices"]
    assert plain == ask(server, "/v1/completions", logprobs=2, max_tokens=3).json()["choices"][0]


@pytest.mark.parametrize("path", ["/completion", "/v1/chat/completions"])
def test_probabilities_after_sampling_are_spelled_as_llama_cpp_spells_them(server, path):
    fields = {"n_probs": 3, "post_sampling_probs": True, "temperature": 2, "top_k": 2}
    answer = ask(server, path, **fields, max_tokens=6).json()
    if path == "/completion":
        entries = answer["completion_probabilities"]
    else:
        entries = answer["choices"][0]["logprobs"]["content"]
    assert len(entries) == 6
    for entry in entries:
        assert set(entry) == {"id", "token", "bytes", "prob", "top_probs"}
        assert len(entry["top_probs"]) == 2  # which is what top-k leaves
        assert sum(top["prob"] for top in entry["top_probs"]) == pytest.approx(1)
        assert entry["prob"] in [top["prob"] for top in entry["top_probs"]]


def test_probabilities_after_sampling_without_probabilities_are_reported_as_ignored(server):
    answer = ask(server, "/v1/chat/completions", post_sampling_probs=True)
    assert answer.headers["x-localspec-ignored"] == "post_sampling_probs"
