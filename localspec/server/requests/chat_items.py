"""Reads items of /v1/responses in place of messages: Cursor sends them for some models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

RESULTS = ("function_call_output", "custom_tool_call_output")
MOVED = ("input", "instructions")


def as_messages(body: object) -> object:
    """Take the input of a request as its messages."""
    if not isinstance(body, dict) or body.get("messages") or not body.get("input"):
        return body
    rules = body.get("instructions")
    first = [{"role": "system", "content": rules}] if isinstance(rules, str) and rules else []
    items = body["input"] if isinstance(body["input"], list) else [body["input"]]
    fields = {name: value for name, value in body.items() if name not in MOVED}
    messages = [*first, *(message for item in items for message in message_of(item))]
    return {**fields, "messages": messages}


def message_of(item: object) -> Iterator[object]:
    """Yield the message of an item; a thought stays with the client."""
    kind = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or kind in (None, "message"):
        yield item
    elif kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        yield {"role": "assistant", "tool_calls": [call]}
    elif kind in RESULTS:
        result = {"tool_call_id": item.get("call_id"), "content": item.get("output")}
        yield {"role": "tool", **result}
