"""Requests that are odd in one place, as libraries, forms and other languages write them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.apps.server.client_requests import (
    BLOCKS,
    CALL,
    CHAT,
    FLAT,
    GENERATE,
    HI,
    ITEMS,
    OBJECT,
    RESULT,
    TEXT,
    TOOL,
    Body,
    blocks,
    chat,
    items,
    old,
)

READ_NAME = {"name": "read_file"}
TEXT_ONE = {"type": "object", "properties": {"a": {"type": "string"}}}
FIELDS: tuple[Body, ...] = (  # of a chat
    {"tool_choice": "", "tools": [TOOL]},
    {"tool_choice": {"type": "none"}, "tools": [TOOL]},
    {"tool_choice": {"function": {"name": "read_file"}}, "tools": [TOOL]},
    {"stop": ["a", 5]},
    {"stop": [f"name {number}:" for number in range(200)]},
    {"max_tokens": ""},
    {"max_tokens": "256"},
    {"max_tokens": 10**12},
    {"temperature": "0.7", "top_p": "", "seed": "42"},
    {"seed": 1.5},
    {"seed": 1 << 64},
    {"logit_bias": {"50256": -100}},
    {"response_format": "json", "max_tokens": 64},
    {"response_format": ""},
    {"response_format": {"type": "json", "value": OBJECT}, "max_tokens": 64},
    {"response_format": {"type": "json", "schema": OBJECT}, "max_tokens": 64},
    {"response_format": {"type": "regex", "value": "a+"}, "max_tokens": 8},
    {"response_format": {"type": "regex", "pattern": "a+"}, "max_tokens": 8},
    {"response_format": {"type": "grammar", "grammar": 'root ::= "a"'}, "max_tokens": 8},
    {"response_format": {"type": "gbnf", "value": 'root ::= "a"'}, "max_tokens": 8},
    {"max_tokens": 0},
    {"max_tokens": 5.7},
    {"model": 5},
    {"logit_bias": {"Hello": -5, "7": False, "8": None}},
    {"logit_bias": [["Hello", -5], [7, False]]},
    {"logit_bias": False},
    {"logit_bias": {"5": 500}},
    {"repetition_penalty": 0, "repeat_penalty": 0},
    {"response_format": {"type": "markdown"}},
    {"response_format": "auto"},
    {"guided_json": ""},
    {"prediction": [{"type": "text", "text": "hi"}]},
    {"tools": json.dumps([TOOL])},
    {"tools": TOOL},
    {"tools": [None, TOOL]},
    {"tools": [TOOL], "tool_choice": "AUTO"},
    {"tools": [TOOL], "tool_choice": True},
    {"tools": [TOOL], "tool_choice": []},
    {"tools": [TOOL], "tool_choice": "validated"},
    {"tools": [TOOL], "tool_choice": {"type": "function", "function": "read_file"}},
    {"reasoning_effort": {"effort": "low"}},
    {"reasoning_effort": True},
    {"reasoning_effort": False},
    {"modalities": []},
    {"modalities": "text"},
    {"stop": {}, "tools": {}, "logit_bias": [], "metadata": []},
    {"seed": "", "logit_bias": "", "stream_options": "", "n": 1, "stream": "false"},
    {"response_format": {"type": "text"}, "stream_options": [], "chat_template_kwargs": []},
    {"tools": [TOOL], "tool_choice": "required", "response_format": {"type": "json_object"}},
    {"prediction": "hi"},
    {"chat_template_kwargs": '{"enable_thinking": false}'},
    {"tools": [{**TOOL, "function": {"name": "f", "parameters": '{"type": "object"}'}}]},
    {"tools": [{**TOOL, "function": {"name": "f", "parameters": []}}]},
    {
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "f",
                    "parameters": {"type": "object", "properties": [], "required": {}},
                    "strict": True,
                },
            }
        ]
    },
    {"format": "json", "keep_alive": "5m", "options": {"num_ctx": 4096}, "think": False},
)
SCHEMAS: tuple[Body, ...] = (
    {"type": "object", "properties": []},
    {**TEXT_ONE, "required": {}},
    {**TEXT_ONE, "required": None},
    {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
    {"type": ["object", "null"], "properties": {}},
    {"type": "None"},
    {"type": "dict", "properties": {}},
    {**TEXT_ONE, "$schema": "https://example.com/schema", "$id": "x"},
    {**TEXT_ONE, "additionalProperties": "false"},
    *(
        {"type": "object", "properties": {"a": member}}
        for member in (
            *({"type": kind} for kind in ("any", "str", "int", "float", "date", "file", None)),
            {"$ref": "#/$defs/missing"},
            {"$ref": "https://example.com/schema"},
            {"type": "string", "minLength": "1"},
            {"type": "integer", "minimum": "0", "maximum": True},
            {"type": "array", "items": {"type": "any"}},
            {"enum": []},
            "text",
            True,
        )
    ),
)


def said(content: object, role: str = "user") -> Body:
    return {"role": role, "content": content}


def calling(call: Body) -> Body:
    return {"role": "assistant", "content": "", "tool_calls": [call]}


TALKS: tuple[tuple[Body, ...], ...] = (
    (HI, calling({**CALL, "id": 1}), {**RESULT, "tool_call_id": 1}),
    (HI, calling({"name": "read_file", "args": {}, "id": "call_1", "type": "tool_call"}), RESULT),
    (HI, calling({**CALL, "function": {"name": "read_file", "arguments": []}}), RESULT),
    (HI, calling({**CALL, "function": {"name": "read_file", "arguments": ["x"]}}), RESULT),
    (HI, calling({**CALL, "function": {"name": "read_file", "arguments": 5}}), RESULT),
    (HI, {"role": "assistant", "content": "a", "function_call": {}}, HI),
    (said([None, "hi"]),),
    (said([{"type": "text", "text": 5}]),),
    (HI, calling(CALL), {**RESULT, "role": "ipython"}),
    (HI, calling(CALL), {**RESULT, "role": "tool_response"}),
    (HI, calling(CALL), {**RESULT, "role": "observation"}),
    (HI, said("a", "bot"), HI),
    ({"content": "hi"},),
    (HI, said("a", "assistant"), said("the day is late", "latest_reminder")),
    (said([{"type": "text", "text": {"value": "hi", "annotations": []}}]),),
    *(
        (HI, {**said("a", "assistant"), name: given}, HI)
        for name, given in (
            ("reasoning_content", [{"text": "t"}]),
            ("reasoning_content", {"t": 1}),
            ("reasoning_details", {"type": "reasoning.text", "text": "t"}),
            ("thinking_blocks", "t"),
        )
    ),
)
OTHERS: tuple[tuple[str, Body], ...] = (
    (TEXT, {"prompt": {"prompt_string": "hi", "multimodal_data": []}, "max_tokens": 4}),
    (TEXT, {"prompt": [72, "i"], "max_tokens": 4}),
    (TEXT, {"prompt": "hi", "suffix": "", "max_tokens": 4}),
    (BLOCKS, blocks(HI, {"role": "assistant", "content": None}, HI)),
    (BLOCKS, blocks(tools=[{"name": "a", "input_schema": OBJECT}], tool_choice={})),
    (BLOCKS, blocks(tools=[{"name": "a", "input_schema": OBJECT}], tool_choice="required")),
    (ITEMS, items(include="reasoning.encrypted_content")),
    (ITEMS, items(max_output_tokens=0)),
    (ITEMS, items(instructions=[{"role": "system", "content": "a"}])),
    (CHAT, {"input": [HI], "instructions": "a"}),
    ("/api/chat", old(num_predict=10.5) | {"format": "text"}),
    ("/api/chat", old() | {"messages": [{"content": "hi"}]}),
    (BLOCKS, blocks(tools=[{"name": "a", "input_schema": {"type": "object", "properties": []}}])),
    (ITEMS, items(tools=[{**FLAT, "parameters": {"type": "OBJECT", "properties": []}}])),
    ("/api/chat", old() | {"tools": [{**TOOL, "function": {"name": "f", "parameters": []}}]}),
    (ITEMS, items(tools=[TOOL], tool_choice={"type": "function", "function": READ_NAME})),
    (ITEMS, items(text={"format": "text"}, metadata=[])),
    ("/api/chat", {"model": "m", "messages": [HI], "options": [], "tools": {}}),
    (GENERATE, {"model": "m", "prompt": "hi", "options": {"stop": [5], "num_predict": 8}}),
)


def odd_requests() -> Iterator[tuple[str, str, Body]]:
    """Name, path and body of each."""
    for body in FIELDS:
        yield f"odd: {json.dumps(body)[:70]}", CHAT, chat(**body)
    for schema in SCHEMAS:
        tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
        yield f"schema: {json.dumps(schema)[:90]}", CHAT, chat(tools=[tool])
    for number, talk in enumerate(TALKS):
        yield f"talk {number}: {json.dumps(talk[-2:])[:70]}", CHAT, chat(*talk)
    for path, body in OTHERS:
        yield f"odd: {json.dumps(body)[:70]}", path, body
