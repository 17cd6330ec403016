"""/v1/completions, as its own client library sees it."""

from __future__ import annotations

import json

import openai
import pytest

from tests.apps.server.coder import Coder

COUNTING = "one two "
SAYS = "three four"


@pytest.fixture(scope="module")
def coder():
    made = Coder({COUNTING: SAYS, "größe": " is size", "def add(": "a, b"})
    yield made
    made.server.close()


@pytest.fixture(scope="module")
def client(coder):
    address = f"{coder.server.address}/v1"
    with openai.OpenAI(base_url=address, api_key="any", max_retries=0) as made:
        yield made


def ask(client, prompt=COUNTING, **wishes):
    return client.completions.create(model="scripted", prompt=prompt, **wishes)


def texts(reply):
    return [choice.text for choice in reply.choices]


def test_a_text_is_gone_on_with(client):
    reply = ask(client)
    [choice] = reply.choices
    assert (choice.text, choice.finish_reason, choice.logprobs) == (SAYS, "stop", None)
    assert reply.object == "text_completion"
    assert reply.usage.prompt_tokens == len(COUNTING)
    assert reply.usage.completion_tokens == len(SAYS) + 1


def test_sixteen_tokens_are_the_usual_length(server):
    reply = server.client.post("/v1/completions", json={"prompt": "without end"}).json()
    [choice] = reply["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("Y" * 16, "length")


def test_several_prompts_are_answered_each_in_its_place(client):
    reply = ask(client, [COUNTING, "größe", "def add("])
    assert texts(reply) == [SAYS, " is size", "a, b"]
    assert [choice.index for choice in reply.choices] == [0, 1, 2]
    assert reply.usage.prompt_tokens == len((COUNTING + "größe" + "def add(").encode())


def test_tokens_are_as_good_as_their_text(client):
    tokens = list(COUNTING.encode())
    assert texts(ask(client, tokens)) == [SAYS]
    assert texts(ask(client, [tokens, list("größe".encode())])) == [SAYS, " is size"]


def test_a_prompt_is_repeated_if_that_is_wished(client):
    assert texts(ask(client, echo=True)) == [COUNTING + SAYS]
    assert texts(ask(client, list(COUNTING.encode()), echo=True)) == [COUNTING + SAYS]
    twice = ask(client, [COUNTING, "größe"], n=2, echo=True)
    assert texts(twice) == [COUNTING + SAYS] * 2 + ["größe is size"] * 2
    replies = streamed(ask(client, [COUNTING, "größe"], echo=True, stream=True), 2)
    assert replies == [COUNTING + SAYS, "größe is size"]


def test_a_repeated_prompt_has_the_log_probabilities_of_its_tokens_but_the_first(client):
    fields = {"echo": True, "logprobs": 1, "n": 2}
    for choice in ask(client, [COUNTING, "größe"], **fields).choices[:2]:
        columns = choice.logprobs
        assert "".join(columns.tokens[:-1]) == choice.text == COUNTING + SAYS
        assert columns.token_logprobs[0] is columns.top_logprobs[0] is None
        pairs = zip(columns.token_logprobs, columns.top_logprobs, strict=True)
        assert all(own <= max(top.values()) for own, top in [*pairs][1:])
        assert columns.text_offset == [*range(len(choice.text)), len(choice.text)]
    whole = ask(client, **fields).choices[0].logprobs
    streams = [chunk.choices[0] for chunk in ask(client, **fields, stream=True) if chunk.choices]
    parts = [part.logprobs for part in streams if part.index == 0 and part.logprobs]
    for column in ("tokens", "token_logprobs", "text_offset"):
        pieces = [piece for part in parts for piece in getattr(part, column)]
        assert pieces == getattr(whole, column)


def test_a_prompt_alone_is_scored_where_no_token_is_wanted(client):
    fields = {"echo": True, "logprobs": 1, "max_tokens": 0}
    [choice] = ask(client, **fields).choices
    assert (choice.text, choice.finish_reason) == (COUNTING, "length")
    assert choice.logprobs.tokens == list(COUNTING)
    chunks = [chunk.choices[0] for chunk in ask(client, **fields, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == COUNTING
    scored = [token for chunk in chunks if chunk.logprobs for token in chunk.logprobs.tokens]
    assert scored == list(COUNTING)


def test_tokens_end_a_reply_sooner_and_a_least_length_later(client, coder):
    [choice] = ask(client, extra_body={"stop_token_ids": [ord("f"), 1 << 40]}).choices
    assert (choice.text, choice.finish_reason) == ("three ", "stop")
    assert ask(client, max_tokens=30).usage.completion_tokens < 14
    assert ask(client, max_tokens=30, extra_body={"min_tokens": 14}).usage.completion_tokens >= 14
    asked = {"model": "scripted", "prompt": COUNTING, "raw": True, "stream": False}
    asked["options"] = {"num_predict": 30, "min_tokens": 14}
    assert coder.server.client.post("/api/generate", json=asked).json()["eval_count"] >= 14


def test_a_prompt_is_read_anew_where_a_request_wants_no_prefix(client, coder):
    def cached(reply):
        return reply.usage.prompt_tokens_details.cached_tokens

    first = ask(client)
    fresh, reused = (ask(client, extra_body={"cache_prompt": reuse}) for reuse in (False, True))
    assert cached(fresh) == 0 < cached(reused)
    assert first.choices[0].text == fresh.choices[0].text == reused.choices[0].text
    native = {"prompt": COUNTING, "n_predict": 3}
    for reuse in (True, False):
        body = coder.server.client.post("/completion", json=native | {"cache_prompt": reuse}).json()
        assert (body["timings"]["cache_n"] == 0) is not reuse


def test_half_a_character_is_repeated_as_a_question_mark(server):
    for stream in (False, True):
        body = b'{"prompt": "a \\ud83d", "echo": true, "max_tokens": 1, "stream": %d}' % stream
        headers = {"content-type": "application/json"}
        answer = server.client.post("/v1/completions", content=body, headers=headers)
        assert answer.status_code == 200
        assert "a ?" in answer.text


def streamed(chunks, replies=1):
    """The texts that a stream is put together to."""
    written = [""] * replies
    for chunk in chunks:
        for choice in chunk.choices:
            written[choice.index] += choice.text
    return written


def test_a_stream_says_the_same_and_counts_at_its_end_if_asked(client):
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert streamed(chunks) == [SAYS]
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"
    assert len({chunk.id for chunk in chunks}) == 1
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len(SAYS) + 1
    prompts = [COUNTING, "größe", "def add("]
    assert streamed(ask(client, prompts, stream=True), 3) == [SAYS, " is size", "a, b"]


def test_several_replies_differ_and_come_again_with_their_seed(client):
    level = {str(ord(letter)): -20 for letter in SAYS}  # they are as likely as all others then
    wishes = {"n": 3, "temperature": 2, "logit_bias": level, "seed": 7, "max_tokens": 12}
    replies = texts(ask(client, **wishes))
    assert len(set(replies)) == 3
    assert texts(ask(client, **wishes)) == replies
    assert streamed(ask(client, stream=True, **wishes), 3) == replies


def test_the_coldest_temperature_draws_the_likeliest(client):
    for temperature in (0, 1e-320, 1e-40, 1e-6):
        assert texts(ask(client, temperature=temperature, extra_body={"top_k": 5})) == [SAYS]
        assert texts(ask(client, temperature=temperature, top_p=0.5)) == [SAYS]


def test_log_probabilities_come_in_columns(client):
    [choice] = ask(client, logprobs=2, max_tokens=6).choices
    logprobs = choice.logprobs
    assert "".join(logprobs.tokens) == choice.text == "three "
    assert logprobs.text_offset == list(range(6))
    assert all(
        token in top for token, top in zip(logprobs.tokens, logprobs.top_logprobs, strict=True)
    )
    assert all(len(top) == 2 for top in logprobs.top_logprobs)
    assert logprobs.token_logprobs == pytest.approx([0] * 6, abs=0.01)
    [bare] = ask(client, logprobs=0, max_tokens=6).choices
    assert bare.logprobs.top_logprobs == [{}] * 6


def test_streamed_columns_are_the_whole_ones_in_pieces(client):
    whole = ask(client, "größe", logprobs=1).choices[0].logprobs
    pieces = [chunk.choices[0].logprobs for chunk in ask(client, "größe", logprobs=1, stream=True)]
    for column in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        values = [each for piece in pieces if piece for each in getattr(piece, column)]
        assert values == getattr(whole, column), column


def test_a_reply_ends_at_a_stop_text(client):
    [choice] = ask(client, stop=[" f", "never"]).choices
    assert (choice.text, choice.finish_reason) == ("three", "stop")


def test_a_middle_is_filled_in_before_a_suffix(coder, client):
    reply = ask(client, "def add(", suffix="):\n    return a + b")
    assert (texts(reply), reply.choices[0].finish_reason) == (["a, b"], "stop")
    assert coder.asked().startswith("<prefix>def add(<suffix>):\n    return a + b<middle>")
    assert streamed(ask(client, "def add(", suffix=")", stream=True)) == ["a, b"]


def test_a_prompt_in_the_models_own_marks_is_read_as_such(coder, client):
    """Zed and Continue write them into the text, and so ask for a middle without a suffix."""
    prompt = "<prefix>def add(<suffix>):\n    return a + b<middle>"
    reply = ask(client, prompt)
    assert texts(reply) == ["a, b"]
    assert coder.asked().startswith(prompt)
    assert reply.usage.prompt_tokens == len("def add():\n    return a + b") + 3
    plain = "say <prefix> to begin with"
    assert ask(client, plain).usage.prompt_tokens == len(plain)


def test_a_prompt_that_begins_with_a_file_is_read_as_files(coder, client):
    """Zed asks a model that rewrites windows so: the window before, now, and next."""
    prompt = "<file>current/a.py\nlong<file>updated/a.py\n"
    assert ask(client, prompt).usage.prompt_tokens == len(prompt) - 2 * len("<file>") + 2
    plain = "say <file> to begin with"
    assert ask(client, plain).usage.prompt_tokens == len(plain)


def test_a_middle_comes_as_a_message_by_the_path_of_mistral(coder):
    asked = {"model": "codestral-latest", "prompt": "def add(", "suffix": ")", "random_seed": 1}
    answer = coder.server.client.post("/v1/fim/completions", json=asked)
    assert answer.json()["choices"][0]["message"]["content"] == "a, b"
    assert "x-localspec-ignored" not in answer.headers  # random_seed is the seed
    answer = coder.server.client.post("/v1/fim/completions", json=asked | {"stream": True})
    records = [
        json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")
    ]
    assert "".join(each["choices"][0]["delta"].get("content", "") for each in records) == "a, b"
    for more in ({"echo": True}, {"logprobs": 1}):
        answer = coder.server.client.post("/v1/fim/completions", json={"prompt": "größe"} | more)
        assert answer.json()["choices"][0]["message"]["content"] == " is size"
        assert answer.headers["x-localspec-ignored"] == next(iter(more))
    deepseek = coder.server.client.post("/beta/completions", json=asked)
    assert deepseek.json()["choices"][0]["text"] == "a, b"


@pytest.mark.parametrize(
    ("wish", "param"),
    [
        ({"suffix": ")"}, None),
        ({"suffix": ")", "prompt": [1, 2]}, "suffix"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[]]}, "prompt"),
        ({"prompt": [1, {"two": 2}]}, "prompt"),
        ({"prompt": [300]}, None),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [1 << 70]}, "prompt"),
        ({"prompt": ["a"] * 17}, "prompt"),
        ({"prompt": ["a"] * 4, "n": 5}, "n"),
        ({"prompt": "x" * 9000}, None),
        ({"best_of": 3}, "best_of"),
        ({"echo": True, "logprobs": 100, "prompt": "x" * 4000}, None),
        ({"logprobs": 101}, "logprobs"),
        ({"repetition_penalty": 1e-320}, "repetition_penalty"),
        ({"x" * 9000: 1}, "x" * 64),
        ({"messages": []}, "messages"),
    ],
)
def test_what_cannot_be_granted_is_refused(strict, wish, param):
    answer = strict.client.post("/v1/completions", json={"prompt": "a"} | wish)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["message"]
    assert (error["param"] or "").startswith(param or "")


def test_a_model_without_tokens_for_a_middle_says_so(server):
    answer = server.client.post("/v1/completions", json={"prompt": "def add(", "suffix": ")"})
    assert answer.status_code == 400
    assert "no tokens to fill in" in answer.json()["error"]["message"]
