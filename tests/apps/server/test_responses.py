"""/v1/responses, as its own client library sees it."""

from __future__ import annotations

import json

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.openai.responses_request import ResponsesRequest
from tests.apps.server.scripted import TEMPLATE, Server

EVENT = TypeAdapter(ResponseStreamEvent)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "weather", "parameters": CITY, "strict": True}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'


@pytest.fixture(scope="module")
def thinker():
    made = Server(template="{# <think> </think> #}" + TEMPLATE)
    made.replies["why?"] = "<think>\nLet me see.\n</think>\n\nBecause."
    made.replies["weather?"] = f"<think>They ask.</think>I look.\n{CALL}\n{CALL}"
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(thinker):
    url = f"{thinker.address}/v1"
    with openai.OpenAI(base_url=url, api_key="any", max_retries=0) as made:
        yield made


def ask(client, given="here", **wishes):
    reply = client.responses.create(model="scripted", input=given, **wishes)
    Response.model_validate(reply.model_dump(by_alias=True))
    return reply


def streamed(client, given="here", **wishes):
    """All events, each as strict as the library's types are."""
    events = list(client.responses.create(model="scripted", input=given, stream=True, **wishes))
    for event in events:
        EVENT.validate_python(event.model_dump(by_alias=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    return events


def settled(reply):
    """Keep what is the same for equal requests."""
    output = [item.model_dump(exclude={"id", "call_id"}) for item in reply.output]
    return output, reply.status, reply.usage.output_tokens, reply.text, reply.tools


def talk(given, **more):
    request = ResponsesRequest(input=given, **more)
    return request.as_conversation(request.input, ())


def test_a_text_is_answered(client):
    reply = ask(client, "Good morning, größe!", metadata={"a": "b"}, instructions="Be kind.")
    assert reply.output_text == "You said: Good morning, größe!"
    assert (reply.status, reply.model, reply.incomplete_details) == ("completed", "scripted", None)
    assert reply.metadata == {"a": "b"}
    assert reply.instructions == "Be kind."
    used = reply.usage
    assert used.total_tokens == used.input_tokens + used.output_tokens
    assert used.output_tokens == len(reply.output_text.encode()) + 1
    again = ask(client, "Good morning, größe!", instructions="Be kind.")
    assert again.usage.input_tokens_details.cached_tokens == used.input_tokens - 1


@pytest.mark.parametrize("question", ["here", "why?", "weather?"])
def test_a_stream_ends_in_what_is_said_at_once(client, question):
    whole = ask(client, question, tools=[WEATHER])
    events = streamed(client, question, tools=[WEATHER])
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert settled(events[-1].response) == settled(whole)
    items = [event.item for event in events if event.type == "response.output_item.done"]
    assert items == events[-1].response.output
    with client.responses.stream(model="scripted", input=question, tools=[WEATHER]) as stream:
        assert stream.get_final_response().output_text == whole.output_text


def test_the_deltas_of_an_item_are_its_text(client):
    texts = {}
    for event in streamed(client, "weather?", tools=[WEATHER]):
        if event.type == "response.output_item.added":
            assert not event.item.to_dict().get("content")
        elif event.type.endswith(".delta"):
            texts[event.output_index] = texts.get(event.output_index, "") + event.delta
        elif event.type in ("response.output_text.done", "response.reasoning_text.done"):
            assert texts[event.output_index] == event.text
        elif event.type == "response.function_call_arguments.done":
            assert texts[event.output_index] == event.arguments
    assert list(texts.values()) == ["They ask.", "I look.", *['{"city": "Oslo"}'] * 2]


def test_reasoning_is_an_item_of_its_own(client):
    thought, message = ask(client, "why?").output
    assert (thought.type, thought.content[0].text) == ("reasoning", "Let me see.")
    assert thought.encrypted_content is None
    assert message.content[0].text == "Because."
    assert ask(client, "why?").usage.output_tokens_details.reasoning_tokens == len(
        "\nLet me see.\n"
    )
    assert ask(client, "here").usage.output_tokens_details.reasoning_tokens == 0


def test_a_tool_is_called_and_its_result_read(client, thinker):
    thinker.replies["It rains."] = "Take an umbrella."
    reply = ask(client, "weather?", tools=[WEATHER])
    calls = reply.output[2:]
    assert [call.name for call in calls] == ["weather", "weather"]
    assert json.loads(calls[0].arguments) == {"city": "Oslo"}
    assert len({call.call_id for call in calls}) == 2
    asked = [{"role": "user", "content": "weather?"}]
    results = [
        {"type": "function_call_output", "call_id": call.call_id, "output": "It rains."}
        for call in calls
    ]
    reply = ask(client, [*asked, *reply.output, *results], tools=[WEATHER])
    assert reply.output_text == "Take an umbrella."


def test_items_of_one_reply_become_one_message():
    call = {"type": "function_call", "name": "weather", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "r", "summary": []}
    messages = talk(
        [
            {"role": "user", "content": "weather?"},
            thought | {"content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            call | {"call_id": "a"},
            call | {"call_id": "b"},
            {"type": "function_call_output", "call_id": "a", "output": "Rain."},
            {"type": "function_call_output", "call_id": "b", "output": "Sun."},
            thought | {"encrypted_content": "localspec:Both."},
            thought | {"encrypted_content": "of another server"},
            {"role": "assistant", "content": "Mixed."},
            {"role": "assistant", "content": "As ever."},
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ],
        instructions="Be kind.",
    ).messages
    function = {"name": "weather", "arguments": "{}"}
    calls = [{"id": id, "type": "function", "function": function} for id in "ab"]
    assert messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "reasoning_content": "Hm.",
            "content": "I look.",
            "tool_calls": calls,
        },
        {"role": "tool", "tool_call_id": "a", "name": "weather", "content": "Rain."},
        {"role": "tool", "tool_call_id": "b", "name": "weather", "content": "Sun."},
        {"role": "assistant", "reasoning_content": "Both.", "content": "Mixed."},
        {"role": "assistant", "content": "As ever."},
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        },
    ]


def test_reasoning_comes_back_sealed_if_that_is_asked_for(client):
    reply = ask(client, "why?", include=["reasoning.encrypted_content"])
    item = reply.output[0].model_dump(exclude_unset=True)
    del item["content"]
    assert talk([item]).messages == [{"role": "assistant", "reasoning_content": "Let me see."}]


def test_wishes_reach_the_template_and_the_grammar():
    messages = talk("x", reasoning={"effort": "none"}, parallel_tool_calls=False, tools=[WEATHER])
    assert messages.extra == {"reasoning_effort": "none", "enable_thinking": False}
    assert (messages.choice, messages.named, messages.parallel) == ("auto", None, False)
    function = {"name": "weather", "parameters": CITY, "strict": True}
    assert messages.tools == [{"type": "function", "function": function}]
    chosen = talk("x", tools=[WEATHER], tool_choice={"type": "function", "name": "weather"})
    assert (chosen.choice, chosen.named) == ("auto", "weather")
    assert talk("x", tools=[WEATHER], tool_choice="required").choice == "required"
    assert talk("x", text={"format": {"type": "json_object"}}).format.kind == "json_object"


def test_a_reply_has_the_form_that_is_asked_for(client, thinker):
    class Place(BaseModel):
        city: str
        people: int

    thinker.replies["where?"] = '{"city": "Oslo", "people": 717710}'
    reply = client.responses.parse(model="scripted", input="where?", text_format=Place)
    assert reply.output_parsed == Place(city="Oslo", people=717710)
    assert ask(client, [*reply.output, {"role": "user", "content": "here"}]).output_text
    fields = {"model": "scripted", "input": "where?", "text_format": Place}
    with client.responses.stream(**fields) as stream:
        assert stream.get_final_response().output_parsed.people == 717710
    thinker.replies["anything?"] = '{"any": ["thing"]} and more'
    reply = ask(client, "anything?", text={"format": {"type": "json_object"}})
    assert json.loads(reply.output_text) == {"any": ["thing"]}


def test_a_reply_that_is_cut_says_so(client):
    reply = ask(client, "here", max_output_tokens=5)
    assert (reply.output_text, reply.status) == ("You s", "incomplete")
    assert reply.incomplete_details.reason == "max_output_tokens"
    assert reply.output[0].status == "incomplete"
    last = streamed(client, "here", max_output_tokens=5)[-1]
    assert (last.type, last.response.output_text) == ("response.incomplete", "You s")


def test_log_probabilities_are_of_the_text(client):
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    *_, message = ask(client, "why?", **fields, extra_body={"localspec": {"plain": True}}).output
    logprobs = message.content[0].logprobs
    assert "".join(each.token for each in logprobs) == "Because."
    assert all(len(each.top_logprobs) == 2 for each in logprobs)
    deltas = [e for e in streamed(client, **fields) if e.type == "response.output_text.delta"]
    tokens = [each.token for delta in deltas for each in delta.logprobs]
    assert "".join(tokens) == "You said: here"
    assert ask(client, "why?").output[-1].content[0].logprobs == []


def test_functions_in_a_namespace_are_called_with_its_name(client):
    """Codex sends namespaces, and a search that no server here runs."""
    space = {"type": "namespace", "name": "skies", "description": "All above.", "tools": [WEATHER]}
    tools = [{"type": "web_search", "external_web_access": True}, space]
    answer = ask(client, "weather?", tools=tools)
    call, other = (item for item in answer.output if item.type == "function_call")
    assert (call.name, call.namespace) == ("weather", "skies")
    items = [{"role": "user", "content": "weather?"}, call.model_dump(exclude_none=True)]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "here"}
    assert ask(client, [*items, result], tools=tools).output_text == "You said: here"
    assert other.namespace == "skies"
    assert [tool.type for tool in answer.tools] == ["web_search", "namespace"]


@pytest.mark.parametrize(
    ("field", "wish"),
    [
        ("conversation", {"conversation": {"id": "conv_1"}}),
        ("background", {"background": True}),
        ("prompt", {"prompt": {"id": "p"}}),
        ("file_search", {"tools": [{"type": "file_search"}]}),
        ("mcp", {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "mcp"}]}]}),
        ("web_search", {"tools": [{"type": "web_search"}], "tool_choice": "required"}),
        ("include", {"include": ["x"]}),
        ("tool_choice", {"tool_choice": "sometimes"}),
        ("tool_choice", {"tool_choice": "required"}),
        ("tool_choice", {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "x"}}),
        ("truncation", {"truncation": "auto"}),
        ("top_logprobs", {"top_logprobs": 3}),
        ("include", {"include": ["file_search_call.results"]}),
        ("input_image", {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
        ("input", {"input": []}),
        ("schema", {"text": {"format": {"type": "json_schema", "name": "x"}}}),
        ("max_output_tokens", {"max_output_tokens": 0}),
        ("moderation", {"moderation": {"model": "x"}}),
    ],
)
def test_what_is_not_here_is_refused_by_name(strict, field, wish):
    url = f"{strict.address}/v1"
    with (
        openai.OpenAI(base_url=url, api_key="any", max_retries=0) as client,
        pytest.raises(openai.BadRequestError) as caught,
    ):
        client.responses.create(**({"model": "scripted", "input": "x"} | wish))
    assert field in f"{caught.value.param} {caught.value.message}"


def test_a_stream_that_cannot_go_on_ends_in_an_error():
    hasty = Server(policy=ServerPolicy(reply_seconds=0), pause=0.02)
    try:
        with openai.OpenAI(base_url=f"{hasty.address}/v1", api_key="any", max_retries=0) as client:
            *_, last = streamed(client)
            assert (last.type, last.code, last.param) == ("error", "timeout", None)
            assert "longer than 0 s" in last.message
            with pytest.raises(openai.InternalServerError, match="longer than 0 s"):
                ask(client)
    finally:
        hasty.close()


def test_half_a_character_does_no_harm(thinker):
    body = {"input": "x", "metadata": {"a": "\ud800"}, "user": "\udfff"}
    headers = {"Content-Type": "application/json"}
    reply = thinker.client.post("/v1/responses", content=json.dumps(body), headers=headers)
    assert reply.json()["metadata"] == {"a": "?"}


def test_nulls_are_as_good_as_nothing(client):
    fields = ("tools", "tool_choice", "text", "reasoning", "include", "stream", "metadata")
    reply = ask(client, "here", extra_body=dict.fromkeys(fields))
    assert reply.output_text == "You said: here"
