"""Conversations through LangChain's client for OpenAI's API."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

CITY = '{"city": "Oslo"}'
CALL = f'<tool_call>\n{{"name": "weather", "arguments": {CITY}}}\n</tool_call>'
PERSON = '{"name": "Ada", "age": 36}'


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def weather(city: Literal["Oslo", "Rome"]) -> str:
    """Tell the weather."""
    return f"rain in {city}"


@pytest.fixture
def model(server):
    return ChatOpenAI(
        model="scripted", base_url=f"{server.address}/v1", api_key="any", max_retries=0
    )


def test_a_conversation_is_answered(model):
    reply = model.invoke([SystemMessage("Be brief."), HumanMessage("here")])
    assert reply.content == "You said: here"
    assert reply.response_metadata["finish_reason"] == "stop"
    assert reply.usage_metadata["output_tokens"] == len("You said: here") + 1


def test_a_stream_says_the_same_and_counts(model):
    whole = None
    for chunk in model.stream("here", stream_usage=True):
        whole = chunk if whole is None else whole + chunk
    assert whole.content == "You said: here"
    assert whole.usage_metadata == model.invoke("here").usage_metadata | {
        "input_token_details": whole.usage_metadata["input_token_details"]
    }


def test_several_questions_are_asked_at_once(model):
    replies = model.batch([f"question {at}" for at in range(6)])
    assert [reply.content for reply in replies] == [f"You said: question {at}" for at in range(6)]
    assert asyncio.run(model.ainvoke("here")).content == "You said: here"


def test_a_bound_tool_is_called_and_its_result_answered(server, model):
    server.replies["rain today?"] = CALL
    bound = model.bind_tools([weather])
    asked = HumanMessage("rain today?")
    reply = bound.invoke([asked])
    [call] = reply.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Oslo"})
    assert reply.response_metadata["finish_reason"] == "tool_calls"
    result = ToolMessage(weather(**call["args"]), tool_call_id=call["id"])
    assert bound.invoke([asked, reply, result]).content == "You said: rain in Oslo"


def test_a_streamed_call_is_put_together(server, model):
    server.replies["rain today?"] = CALL
    whole = AIMessage("")
    for at, chunk in enumerate(model.bind_tools([weather]).stream("rain today?")):
        whole = chunk if at == 0 else whole + chunk
    [call] = whole.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Oslo"})


@pytest.mark.parametrize("choice", ["any", "weather"])
def test_a_call_can_be_demanded(server, model, choice):
    server.replies["rain today?"] = CALL
    [call] = model.bind_tools([weather], tool_choice=choice).invoke("rain today?").tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": "Oslo"})


@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_a_reply_has_the_structure_that_is_wished(server, model, method):
    server.replies["who?"] = PERSON
    asked = model.with_structured_output(Person, method=method).invoke("who?")
    assert asked == Person(name="Ada", age=36)


def test_a_structure_can_be_had_by_a_call_too(server, model):
    server.replies["who calls?"] = CALL.replace("weather", "Person").replace(CITY, PERSON)
    demanding = model.with_structured_output(Person, method="function_calling", include_raw=True)
    result = demanding.invoke("who calls?")
    assert result["parsed"] == Person(name="Ada", age=36)
    assert [call["name"] for call in result["raw"].tool_calls] == ["Person"]


def test_log_probabilities_are_told(model):
    response_metadata = (
        model.bind(logprobs=True, top_logprobs=2).invoke("here").response_metadata["logprobs"]
    )
    assert "".join(each["token"] for each in response_metadata["content"][:-1]) == "You said: here"


def test_the_api_of_items_is_spoken_too(server):
    model = ChatOpenAI(
        model="scripted",
        base_url=f"{server.address}/v1",
        api_key="any",
        max_retries=0,
        use_responses_api=True,
    )
    assert model.invoke("here").text == "You said: here"
    server.replies["rain today?"] = CALL
    [call] = model.bind_tools([weather]).invoke("rain today?").tool_calls
    assert call["args"] == {"city": "Oslo"}
    assert "".join(chunk.text for chunk in model.stream("here")) == "You said: here"


def test_plain_texts_are_gone_on_with(server):
    model = OpenAI(model="scripted", base_url=f"{server.address}/v1", api_key="any", max_tokens=3)
    assert model.invoke("a text") == "YYY"
    assert "".join(model.stream("a text")) == "YYY"
