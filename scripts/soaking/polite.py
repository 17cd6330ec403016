"""Requests that are to be answered, each kind with checks of its replies."""

from __future__ import annotations

import json
from collections.abc import Mapping

import jsonschema

from soaking.caller import Caller
from soaking.reply import CHAT, COMPLETIONS, SoakReply, Wrong

PLACE: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
    },
    "required": ["city", "unit", "days"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": about, "parameters": PLACE}}
    for name, about in {
        "forecast": "The weather of the next days",
        "climate": "What the weather usually is",
    }.items()
]
TABLE = {
    "type": "object",
    "properties": {"rows": {"type": "array", "items": PLACE, "minItems": 1, "maxItems": 2}},
    "required": ["rows"],
    "additionalProperties": False,
}
OTHERS: Mapping[str, Mapping[str, object]] = {
    "/v1/messages": {"max_tokens": 24, "messages": [{"role": "user", "content": "Say hello."}]},
    "/v1/responses": {"max_output_tokens": 24, "input": "Say hello."},
    "/api/chat": {
        "model": "smollm2-135m",
        "messages": [{"role": "user", "content": "Say hello."}],
        "options": {"num_predict": 24},
    },
    "/completion": {"prompt": "The sea is", "n_predict": 24},
}


async def chat_stream(caller: Caller) -> None:
    await caller.chat(stream=True, stream_options={"include_usage": True})


async def chat_whole(caller: Caller) -> None:
    await caller.chat(stream=False)


async def with_logprobs(caller: Caller) -> None:
    await caller.chat(stream=caller.luck.random() < 0.5, logprobs=True, top_logprobs=5)


async def tools(caller: Caller) -> None:
    """Ask for a tool call that has to be made, or may."""
    asked = [{"role": "user", "content": "How will the weather be in Oslo on the weekend?"}]
    must = caller.luck.random() < 0.6
    body = {
        "messages": asked,
        "tools": TOOLS,
        "max_tokens": 80,
        "stream": caller.luck.random() < 0.5,
    }
    body["tool_choice"] = "required" if must else "auto"
    reply = await caller.ask(CHAT, body)
    if reply.endings[0] == "tool_calls":
        for arguments in reply.arguments.values():
            require_schema(arguments, PLACE)
    elif must and reply.endings[0] != "length":
        raise Wrong(f"no call but {reply.texts[0]!r}")


async def schema(caller: Caller) -> None:
    named = {"type": "json_schema", "json_schema": {"name": "table", "schema": TABLE}}
    body = caller.question() | {"response_format": named, "max_tokens": 120}
    body.pop("stop", None)
    reply = await caller.ask(CHAT, {**body, "stream": caller.luck.random() < 0.5})
    if reply.endings[0] == "stop":
        require_schema(reply.texts[0], TABLE)


async def completion(caller: Caller) -> None:
    prompts = ["def area(width, height):", "The harbour lay", "1, 2, 3, 4,", "Dear Sir,"]
    chosen = caller.luck.sample(prompts, caller.luck.choice((1, 1, 2)))
    body = {
        **caller.random_settings(most=48),
        "prompt": chosen,
        "stream": caller.luck.random() < 0.5,
    }
    await caller.ask(COMPLETIONS, body, choices=len(chosen))


async def two_replies(caller: Caller) -> None:
    body = {**caller.question(), "n": 2, "stream": caller.luck.random() < 0.5}
    await caller.ask(CHAT, body, choices=2)


async def other(caller: Caller, path: str) -> str:
    """Ask another API; only that it answers is checked."""
    answer = await caller.client.post(path, json={"stream": False, **OTHERS[path]})
    if answer.status_code not in (200, 503):
        raise Wrong(f"{answer.status_code}: {answer.text[:300]}")
    return "finished" if answer.is_success else "busy"


async def largest(caller: Caller) -> None:
    """Ask for as long a text as a slot holds, with the logprobs of its tokens."""
    words = " ".join(str(caller.luck.randrange(1000)) for _ in range(400))
    asked = [{"role": "user", "content": f"Which of these numbers are prime? {words}"}]
    body = {"messages": asked, "max_tokens": 64, "ignore_eos": True}
    await caller.ask(CHAT, body | {"stream": True, "logprobs": True, "top_logprobs": 20})


def require_schema(text: str, schema: Mapping[str, object]) -> None:
    try:
        jsonschema.validate(json.loads(text), schema)
    except (ValueError, jsonschema.ValidationError) as error:
        raise Wrong(f"not by its schema: {text!r}") from error


async def ask_alone(caller: Caller) -> str:
    """Continue a text that begins like no other.

    No part of it may be read together with others, which rounds differently.
    """
    prompt = "Of all the lighthouses on this coast, the oldest"
    body = {"prompt": prompt, "temperature": 0, "max_tokens": 48}
    reply: SoakReply = await caller.ask(COMPLETIONS, body)
    return reply.texts[0]
