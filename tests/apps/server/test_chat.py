"""/v1/chat/completions, as its own client library sees it."""

from __future__ import annotations

import json
from datetime import date

import openai
import pytest
from pydantic import BaseModel

HERE = {"role": "user", "content": "here"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Tells the weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture
def client(server):
    with openai.OpenAI(base_url=f"{server.address}/v1", api_key="any", max_retries=0) as made:
        yield made


def ask(client, text="here", **wishes):
    messages = [{"role": "user", "content": text}]
    return client.chat.completions.create(model="scripted", messages=messages, **wishes)


def test_a_conversation_is_answered(client):
    reply = ask(client, "Good morning, größe!")
    [choice] = reply.choices
    assert choice.message.content == "You said: Good morning, größe!"
    assert choice.finish_reason == "stop"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.model == "scripted"


def test_a_stream_says_the_same_and_counts_at_its_end_if_asked(client):
    whole = ask(client)
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    texts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert len({chunk.id for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in ask(client, stream=True))


def test_a_follow_up_does_not_read_its_beginning_again(client):
    ask(client, "a question " * 20)
    reply = ask(client, "a question " * 20)
    cached = reply.usage.prompt_tokens_details.cached_tokens
    assert cached == reply.usage.prompt_tokens - 1


def test_a_reply_ends_at_its_length_or_at_a_stop_text(client):
    short = ask(client, max_completion_tokens=3)
    assert (short.choices[0].message.content, short.choices[0].finish_reason) == ("You", "length")
    assert short.usage.completion_tokens == 3
    stopped = ask(client, stop=["said", "never"])
    assert stopped.choices[0].message.content == "You "
    assert stopped.choices[0].finish_reason == "stop"


# Its letters are as likely as all other tokens then.
VARIED = {"temperature": 2, "logit_bias": {str(ord(letter)): -20 for letter in "You said"}}


def test_several_replies_come_to_one_prompt(client):
    reply = ask(client, n=3, **VARIED, seed=5, max_tokens=20)
    contents = [choice.message.content for choice in reply.choices]
    assert len(set(contents)) == 3
    assert reply.usage.prompt_tokens < 60  # counted once
    again = ask(client, n=3, **VARIED, seed=5, max_tokens=20)
    assert [choice.message.content for choice in again.choices] == contents
    streamed = ["", "", ""]
    for chunk in ask(client, n=3, **VARIED, seed=5, max_tokens=20, stream=True):
        [choice] = chunk.choices
        streamed[choice.index] += choice.delta.content or ""
    assert streamed == contents


def test_log_probabilities_come_with_the_text_of_tokens(client):
    reply = ask(client, logprobs=True, top_logprobs=2)
    content = reply.choices[0].logprobs.content
    assert "".join(each.token for each in content[:-1]) == reply.choices[0].message.content
    assert content[-1].token == "<|im_end|>"
    assert all(len(each.top_logprobs) == 2 for each in content)
    assert content[0].logprob == pytest.approx(0, abs=0.01)
    chunks = ask(client, logprobs=True, stream=True)
    lists = [chunk.choices[0].logprobs for chunk in chunks if chunk.choices]
    streamed = [each.token for one in lists if one for each in one.content]
    assert streamed == [each.token for each in content]


def test_bias_penalties_and_sampling_are_heeded(client):
    never = {str(ord("Y")): -100}
    assert not ask(client, logit_bias=never).choices[0].message.content.startswith("Y")
    assert (
        ask(client, temperature=2, extra_body={"top_k": 1}).choices[0].message.content
        == "You said: here"
    )
    content = ask(client, frequency_penalty=100, max_tokens=40).choices[0].message.content
    assert len(set(content)) == len(content)


def test_a_tool_is_called_and_its_result_answered(server, client):
    server.replies["weather in Oslo?"] = f"I look.{CALL}"
    reply = ask(client, "weather in Oslo?", tools=[WEATHER])
    [choice] = reply.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "I look."
    [call] = choice.message.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    messages = [
        {"role": "user", "content": "weather in Oslo?"},
        choice.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "rain"},
    ]
    answer = client.chat.completions.create(model="scripted", messages=messages, tools=[WEATHER])
    assert answer.choices[0].message.content == "You said: rain"


def test_a_streamed_call_comes_in_fragments(server, client):
    server.replies["and there?"] = CALL
    name, arguments, ids = "", "", set()
    for chunk in ask(client, "and there?", tools=[WEATHER], stream=True):
        for call in chunk.choices[0].delta.tool_calls or ():
            name += call.function.name or ""
            arguments += call.function.arguments or ""
            ids |= {call.id} - {None}
            assert call.index == 0
    assert (name, json.loads(arguments)) == ("weather", {"city": "Oslo"})
    assert len(ids) == 1
    assert chunk.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}]
)
def test_a_call_that_is_demanded_is_made(client, choice):
    named = json.loads(json.dumps(WEATHER).replace('"type": "string"', '"enum": ["Oslo", "Rome"]'))
    reply = ask(client, tools=[named], tool_choice=choice)
    [call] = reply.choices[0].message.tool_calls
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in ("Oslo", "Rome")
    assert reply.timings["tokens_by_source"]["forced"] > 30


def test_tools_that_may_not_be_called_are_not(server, client):
    server.replies["no tool"] = CALL
    reply = ask(client, "no tool", tools=[WEATHER], tool_choice="none")
    assert reply.choices[0].message.tool_calls is None


class Person(BaseModel):
    name: str
    age: int


def test_a_reply_follows_a_schema(server, client):
    server.replies["who?"] = '{"name": "Ada", "age": 36}'
    messages = [{"role": "user", "content": "who?"}]
    parsed = client.chat.completions.parse(
        model="scripted", messages=messages, response_format=Person
    )
    assert parsed.choices[0].message.parsed == Person(name="Ada", age=36)
    server.replies["anything"] = '{"any": ["thing", 1, null]} and more'
    reply = ask(client, "anything", response_format={"type": "json_object"})
    assert isinstance(json.loads(reply.choices[0].message.content), dict)


def test_with_tools_and_a_format_a_reply_is_a_call_or_has_the_format(server, client):
    form = {"type": "json_schema", "json_schema": {"schema": Person.model_json_schema()}}
    wishes = {"tools": [WEATHER], "response_format": form}
    server.replies["weather or who?"] = '{"name": "Ada", "age": 36}'
    answer = ask(client, "weather or who?", **wishes).choices[0]
    assert Person.model_validate_json(answer.message.content)
    server.replies["who or weather?"] = CALL
    answer = ask(client, "who or weather?", **wishes).choices[0]
    assert answer.finish_reason == "tool_calls"
    answer = ask(client, "who or weather?", tool_choice="required", **wishes).choices[0]
    assert answer.message.tool_calls[0].function.arguments == '{"city": "Oslo"}'
    for more in ({"grammar": 'root ::= "a"'}, {"guided_regex": "a"}):
        with pytest.raises(openai.BadRequestError, match="grammar cannot call tools"):
            ask(client, tools=[WEATHER], tool_choice="required", extra_body=more)


def test_a_tool_that_is_named_is_one_of_those_that_the_model_hears_of(server, client):
    other = json.loads(json.dumps(WEATHER).replace("weather", "clock"))
    choice = {"type": "function", "function": {"name": "clock"}}
    server.replies["what time?"] = CALL.replace("weather", "clock")
    both = ask(client, "what time?", tools=[WEATHER, other], tool_choice=choice)
    free = ask(client, "what time?", tools=[WEATHER, other])
    assert both.choices[0].message.tool_calls[0].function.name == "clock"
    assert both.usage.prompt_tokens == free.usage.prompt_tokens
    choice["function"]["name"] = "nobody"
    with pytest.raises(openai.BadRequestError, match="which is no tool"):
        ask(client, "what time?", tools=[WEATHER, other], tool_choice=choice)


def test_a_prediction_is_accepted_where_it_is_right(server, client):
    text = "a text that is long enough to be worth a guess, and is repeated word for word"
    server.replies["repeat"] = text
    reply = ask(client, "repeat", prediction={"type": "content", "content": text})
    wrong = ask(client, "repeat", prediction={"type": "content", "content": "a text" + "x" * 50})
    assert reply.choices[0].message.content == wrong.choices[0].message.content == text
    details = reply.usage.completion_tokens_details
    assert details.accepted_prediction_tokens > 30
    assert wrong.usage.completion_tokens_details.rejected_prediction_tokens > 0


def test_drafting_can_be_left_away_or_chosen(client):
    plain = ask(client, "abc " * 30, extra_body={"localspec": {"plain": True}})
    assert plain.timings["draft_n"] == 0
    usual = ask(client, "abc " * 30)
    assert usual.timings["draft_n"] > 0
    assert usual.choices[0].message.content == plain.choices[0].message.content
    other = ask(client, "abc " * 30, extra_body={"localspec": {"proposer": "prediction"}})
    assert other.timings["draft_n"] == 0


def test_who_asked_for_a_proposer_that_drafted_nothing_is_told(client):
    """It is asked only where that pays, so a request that names it may have no drafts."""
    fields = {"localspec": {"proposer": "prediction", "depth": 3}}
    notice = "prediction drafted nothing: no draft was found, or none would have paid here"
    assert ask(client, "abc " * 30, extra_body=fields).localspec == {"notices": [notice]}
    *_, last = ask(client, "abc " * 30, extra_body=fields, stream=True)
    assert last.localspec == {"notices": [notice]}
    usual = ask(client, "abc " * 30, extra_body={"localspec": {"depth": 3}})
    assert "localspec" not in usual.model_extra


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"temperatur": 1}, "temperatur"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"n": 0}, "n"),
        ({"n": 100}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"logit_bias": {"you": "x"}}, "logit_bias.you"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"modalities": ["audio"]}, "modalities"),
    ],
)
def test_what_cannot_be_granted_is_refused_by_name(strict, wish, field):
    body = {"messages": [HERE]} | wish
    answer = strict.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"].startswith(field)
    assert error["message"]


def test_a_prompt_that_is_too_long_is_told_with_both_numbers(client):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, "x" * 9000, stream=True)
    assert caught.value.code == "context_length_exceeded"
    assert "prompt is too long: 9019 tokens > 8192;" in str(caught.value)
    assert "this model's maximum context length is 8192 tokens" in str(caught.value)  # for litellm


def test_another_model_is_not_here_if_the_server_is_strict(client, strict):
    assert client.chat.completions.create(model="gpt-5", messages=[HERE]).model == "scripted"
    url = f"{strict.address}/v1"
    with (
        openai.OpenAI(base_url=url, api_key="any", max_retries=0) as exact,
        pytest.raises(openai.NotFoundError) as caught,
    ):
        exact.chat.completions.create(model="scriptd", messages=[HERE])
    assert caught.value.code == "model_not_found"
    assert "did you mean scripted?" in str(caught.value)


def test_models_are_listed_with_their_context(client):
    [model] = client.models.list().data
    assert (model.id, model.context_length) == ("scripted", 8192)
    assert client.models.retrieve("scripted").id == "scripted"


def test_models_are_listed_in_the_words_of_other_clients_too(server):
    listing = server.client.get("/v1/models").json()
    [model] = listing["models"]
    assert [model["name"], model["model"]] == [one["id"] for one in listing["data"]] * 2
    assert model["capabilities"] == ["completion"]
    for field in ("name", "description", "release_date"):  # TypeSafe's refuses a list without one
        assert isinstance(model[field], str)
    date.fromisoformat(model["release_date"])
