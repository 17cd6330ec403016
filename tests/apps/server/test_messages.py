"""/v1/messages, as its own client library sees it."""

from __future__ import annotations

import re
from types import SimpleNamespace

import anthropic
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import BaseModel, TypeAdapter

from localspec.apps.server.anthropic.answer import MessagesAnswer
from localspec.apps.server.anthropic.request import MessagesRequest
from localspec.apps.server.app import ServerPolicy
from tests.apps.server.scripted import TEMPLATE, Server

EVENT = TypeAdapter(RawMessageStreamEvent)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Tells the weather.", "input_schema": CITY}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
HERE = [{"role": "user", "content": "here"}]
TOO_LONG = r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)"  # Claude Code 2.1 has this
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}


@pytest.fixture(scope="module")
def thinker():
    made = Server(template="{# <think> </think> #}" + TEMPLATE)
    made.model.context = 2048
    made.replies["why?"] = "<think>\nLet me see.\n</think>\n\nBecause."
    made.replies["weather?"] = f"<think>They ask.</think>I look.\n{CALL}\n{CALL}"
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(thinker):
    with client_of(thinker) as made:
        yield made


def client_of(server):
    return anthropic.Anthropic(base_url=server.address, api_key="any", max_retries=0)


def wish(given, **more):
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return {"model": "scripted", "max_tokens": 500, "messages": messages} | more


def ask(client, given="here", **more):
    reply = client.messages.create(**wish(given, **more))
    Message.model_validate(reply.model_dump(by_alias=True))
    return reply


def streamed(client, given="here", **more):
    """All events, each as strict as the library's types are."""
    events = list(client.messages.create(**wish(given, **more), stream=True))
    for event in events:
        EVENT.validate_python(event.model_dump(by_alias=True))
    return events


def settled(reply):
    """Keep what is the same for equal requests."""
    content = [block.model_dump(exclude={"id"}) for block in reply.content]
    return content, reply.stop_reason, reply.stop_sequence, reply.usage.output_tokens


def talk(given, **more):
    return MessagesRequest(**wish(given, **more)).conversation()


def test_a_message_is_answered(client):
    reply = ask(client, "Good morning, größe!", system="Be kind.", metadata={"user_id": "me"})
    [block] = reply.content
    assert block.text == "You said: Good morning, größe!"
    assert (reply.stop_reason, reply.stop_sequence, reply.model) == ("end_turn", None, "scripted")
    assert reply.usage.output_tokens == len(block.text.encode()) + 1
    again = ask(client, "Good morning, größe!", system="Be kind.").usage
    first = reply.usage
    assert again.input_tokens == 1
    prompt = first.input_tokens + first.cache_read_input_tokens
    assert again.cache_read_input_tokens == prompt - 1


@pytest.mark.parametrize("question", ["here", "why?", "weather?"])
def test_a_stream_ends_in_what_is_said_at_once(client, question):
    whole = ask(client, question, tools=[WEATHER])
    kinds = [event.type for event in streamed(client, question, tools=[WEATHER])]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    with client.messages.stream(**wish(question, tools=[WEATHER])) as stream:
        final = stream.get_final_message()
    assert settled(final) == settled(whole)
    used, expected = final.usage, whole.usage
    assert used.cache_read_input_tokens + used.input_tokens == (
        expected.cache_read_input_tokens + expected.input_tokens
    )
    assert used.output_tokens_details == expected.output_tokens_details


def test_blocks_come_one_after_the_other(client):
    events = streamed(client, "weather?", tools=[WEATHER])[1:-2]
    assert [event.index for event in events] == sorted(event.index for event in events)
    starts = [e.content_block.type for e in events if e.type == "content_block_start"]
    assert starts == ["thinking", "text", "tool_use", "tool_use"]
    assert sum(event.type == "content_block_stop" for event in events) == 4
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    thought = "".join(each.thinking for each in deltas if each.type == "thinking_delta")
    text = "".join(each.text for each in deltas if each.type == "text_delta")
    joined = "".join(each.partial_json for each in deltas if each.type == "input_json_delta")
    assert (thought, text, joined) == ("They ask.", "I look.", '{"city": "Oslo"}' * 2)


def test_thoughts_are_a_block_of_their_own(client):
    reply = ask(client, "why?", thinking={"type": "enabled", "budget_tokens": 1024})
    thought, text = reply.content
    assert (thought.type, thought.thinking) == ("thinking", "Let me see.")
    assert text.text == "Because."
    assert reply.usage.output_tokens_details.thinking_tokens == len("\nLet me see.\n")


def test_thoughts_that_are_not_to_be_shown_come_back_sealed(client):
    hidden = {"thinking": {"type": "adaptive", "display": "omitted"}}
    whole = ask(client, "why?", **hidden)
    with client.messages.stream(**wish("why?", **hidden)) as stream:
        assert settled(stream.get_final_message()) == settled(whole)
    assert whole.content[0].thinking == ""
    assert "thinking_delta" not in str(streamed(client, "why?", **hidden))
    back = [block.model_dump(exclude_unset=True) for block in whole.content]
    *_, message, _ = talk([*HERE, {"role": "assistant", "content": back}, *HERE]).messages
    assert message["reasoning_content"] == "Let me see."


def test_a_tool_is_used_and_its_result_read(client, thinker):
    thinker.replies["It rains."] = "Take an umbrella."
    reply = ask(client, "weather?", tools=[WEATHER])
    assert reply.stop_reason == "tool_use"
    calls = [block for block in reply.content if block.type == "tool_use"]
    assert [call.input for call in calls] == [{"city": "Oslo"}] * 2
    assert len({call.id for call in calls}) == 2
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": "It rains."} for call in calls
    ]
    messages = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": results},
    ]
    assert ask(client, messages, tools=[WEATHER]).content[0].text == "Take an umbrella."


def test_the_library_runs_tools_until_they_are_done(client, thinker):
    @anthropic.beta_tool
    def weather(city: str) -> str:
        """Tells the weather."""
        return f"It snows in {city}."

    thinker.replies["It snows in Oslo."] = "Take skis."
    for stream in (False, True):
        run = client.beta.messages.tool_runner(
            **wish("weather?"), tools=[weather], max_iterations=3, stream=stream
        )
        assert run.until_done().content[0].text == "Take skis."


def test_blocks_become_messages_that_templates_read():
    kept = {"cache_control": {"type": "ephemeral"}}
    text = {"type": "text", "text": "a"} | kept
    use = {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Oslo"}}
    other = {"type": "tool_use", "id": "u", "name": "clock", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text, text]}
    failed = {"type": "tool_result", "tool_use_id": "u", "content": "gone", "is_error": True}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "of whom ever"}
    messages = talk(
        [
            {"role": "user", "content": [text, text]},
            {"role": "assistant", "content": [thought, text, text, use, other]},
            {"role": "user", "content": [failed, result, text]},
            {"role": "system", "content": "Be brief."},
        ],
        system=[text, text],
    ).messages
    calls = [
        {"id": one["id"], "type": "function", "function": {"name": name, "arguments": given}}
        for one, name, given in ((use, "weather", {"city": "Oslo"}), (other, "clock", {}))
    ]
    fields = {"content": "aa", "reasoning_content": "Hm.", "tool_calls": calls}
    assert messages == [
        {"role": "system", "content": "a\n\na"},
        {"role": "user", "content": "a\n\na"},
        {"role": "assistant", **fields},
        {"role": "tool", "tool_call_id": "u", "name": "clock", "content": "Error: gone"},
        {"role": "tool", "tool_call_id": "t", "name": "weather", "content": "a\n\na"},
        {"role": "user", "content": "a"},
        {"role": "system", "content": "Be brief."},
    ]


def test_wishes_reach_the_template_and_the_grammar():
    function = {"name": "weather", "description": "Tells the weather.", "parameters": CITY}
    any_one = {"type": "any", "disable_parallel_tool_use": True}
    messages = talk("x", tools=[WEATHER], tool_choice=any_one, output_config={"effort": "low"})
    assert messages.tools == [{"type": "function", "function": function}]
    assert (messages.choice, messages.named, messages.parallel) == ("required", None, False)
    assert messages.extra == {"reasoning_effort": "low"}
    named = talk("x", tools=[WEATHER], tool_choice={"type": "tool", "name": "weather"})
    assert (named.choice, named.named, named.parallel) == ("auto", "weather", None)
    assert talk("x", tools=[WEATHER], tool_choice={"type": "none"}).choice == "none"
    thinks = talk("x", thinking={"type": "enabled", "budget_tokens": 1024})
    assert thinks.extra == {"enable_thinking": True}
    assert talk("x", thinking={"type": "disabled"}).extra == {"enable_thinking": False}
    assert talk("x", thinking={"type": "adaptive"}).extra == {}


def test_a_reply_has_the_form_that_is_asked_for(client, thinker):
    class Place(BaseModel):
        city: str
        people: int

    thinker.replies["where?"] = '{"city": "Oslo", "people": 717710} and more'
    reply = client.messages.parse(**wish("where?"), output_format=Place)
    assert reply.parsed_output == Place(city="Oslo", people=717710)


def test_a_reply_tells_why_it_ended(client):
    cut = ask(client, max_tokens=5)
    assert (cut.content[0].text, cut.stop_reason) == ("You s", "max_tokens")
    stopped = ask(client, stop_sequences=["never", "said"])
    assert stopped.content[0].text == "You "
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "said")
    full = ask(client, "x" * 1010, max_tokens=2000, stop_sequences=["never"])
    assert full.stop_reason == "model_context_window_exceeded"


def test_a_call_that_is_cut_is_as_long_as_can_be_read(client, thinker):
    words = '{"name": "weather", "arguments": {"city": "Oslo", "day": "tod'
    thinker.replies["cut?"] = f"<tool_call>\n{words}"
    size = len(f"<tool_call>\n{words}")
    tool = WEATHER | {"input_schema": {"type": "object"}}
    reply = ask(client, "cut?", max_tokens=size, tools=[tool])
    assert (reply.content[0].input, reply.stop_reason) == ({"city": "Oslo"}, "max_tokens")
    with client.messages.stream(**wish("cut?", max_tokens=size, tools=[tool])) as stream:
        assert settled(stream.get_final_message()) == settled(reply)


def test_tokens_are_counted_before_anything_is_said(client):
    counted = client.messages.count_tokens(model="scripted", messages=HERE, tools=[WEATHER])
    used = ask(client, tools=[WEATHER]).usage
    assert counted.input_tokens == used.input_tokens + used.cache_read_input_tokens
    more = client.messages.count_tokens(model="scripted", messages=HERE, system="Be kind.")
    assert more.input_tokens < counted.input_tokens
    start, *_ = streamed(client, tools=[WEATHER])
    assert start.message.usage.input_tokens == counted.input_tokens


@pytest.mark.parametrize(
    ("field", "more"),
    [
        ("'image'", {"messages": [{"role": "user", "content": [IMAGE]}]}),
        ("'document'", {"messages": [{"role": "user", "content": [{"type": "document"}]}]}),
        (
            "'image'",
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]}
                        ],
                    }
                ]
            },
        ),
        ("messages", {"messages": []}),
        ("messages.0", {"messages": [{"role": "tool", "content": "x"}]}),
        ("web_search_20250305", {"tools": [{"type": "web_search_20250305", "name": "w"}]}),
        ("tools.0", {"tools": [WEATHER | {"name": "what a\nname"}]}),
        ("tool_choice", {"tool_choice": {"type": "tool"}}),
        ("has to be called", {"tool_choice": {"type": "any"}}),
        ("'clock'", {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "clock"}}),
        ("max_tokens", {"max_tokens": -1}),
        ("container", {"extra_body": {"container": "c"}}),
        ("mcp_servers", {"extra_body": {"mcp_servers": [{"type": "url", "name": "x"}]}}),
    ],
)
def test_what_is_not_here_is_refused_by_name(strict, field, more):
    with client_of(strict) as client, pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**wish("x", **more))
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    assert field in caught.value.body["error"]["message"]


def test_what_agents_send_besides_is_harmless(client):
    kept = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    reply = ask(
        client,
        [{"role": "user", "content": [{"type": "text", "text": "here", **kept}]}],
        system=[{"type": "text", "text": "Be kind.", **kept}],
        tools=[{**WEATHER, **kept, "type": "custom", "eager_input_streaming": True}],
        service_tier="auto",
        extra_headers={"anthropic-beta": "interleaved-thinking-2025-05-14"},
        extra_query={"beta": "true"},
        extra_body={"context_management": {"edits": []}},
    )
    assert reply.content[0].text == "You said: here"


def test_a_client_hears_that_the_server_still_works():
    class Quiet:
        replies = (SimpleNamespace(prepared=SimpleNamespace(tokens=[1, 2])),)
        served = SimpleNamespace(name="quiet")

    answer = MessagesAnswer(Quiet(), hides_thoughts=False)
    [start], [ping] = answer.opening(), answer.bodies(0, None)
    assert b'"input_tokens": 2' in start
    assert ping == b'event: ping\ndata: {"type": "ping"}\n\n'


def test_agents_know_that_a_prompt_is_too_long_and_by_how_much(client):
    """Claude Code, which shortens the conversation then, and LangChain know it by the words."""
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**wish("x" * 9000))
    words = re.search(TOO_LONG, caught.value.message)
    assert words
    assert [int(number) for number in words.groups()] == [9019, 2048]


def test_a_stream_that_cannot_go_on_ends_in_an_error():
    hasty = Server(policy=ServerPolicy(reply_seconds=0), pause=0.02)
    try:
        with client_of(hasty) as client:
            with pytest.raises(anthropic.APIStatusError) as caught:
                streamed(client)
            assert caught.value.body["error"]["type"] == "api_error"
            assert "longer than 0 s" in caught.value.body["error"]["message"]
    finally:
        hasty.close()


def test_a_reply_that_is_begun_is_gone_on_with(thinker, client):
    thinker.replies["finish it"] = "one two three"
    begun = [{"role": "user", "content": "finish it"}, {"role": "assistant", "content": "one t"}]
    reply = client.messages.create(**wish("x", messages=begun))
    assert reply.content[0].text == "wo three"
