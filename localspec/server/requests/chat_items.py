"""Items of /v1/responses where a chat should have messages: Cursor sends them for some models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

RESULTS = ("function_call_output", "custom_tool_call_output")
MOVED = ("input", "instructions")


def as_messages(given: object) -> object:
    """Take the input of a request for its messages."""
    if not isinstance(given, dict) or given.get("messages") or not given.get("input"):
        return given
    rules = given.get("instructions")
    first = [{"role": "system", "content": rules}] if isinstance(rules, str) and rules else []
    items = given["input"] if isinstance(given["input"], list) else [given["input"]]
    rest = {name: each for name, each in given.items() if name not in MOVED}
    return {**rest, "messages": [*first, *(message for each in items for message in of_item(each))]}


def of_item(item: object) -> Iterator[object]:
    """Yield the message that says the same; a thought stays with the client."""
    kind = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or kind in (None, "message"):
        yield item
    elif kind == "function_call":
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        yield {"role": "assistant", "tool_calls": [call]}
    elif kind in RESULTS:
        found = {"tool_call_id": item.get("call_id"), "content": item.get("output")}
        yield {"role": "tool", **found}
