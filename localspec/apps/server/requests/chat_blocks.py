"""Reads blocks of /v1/messages in messages of a chat: Cursor sends them for models of Anthropic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

BLOCKS = ("tool_use", "tool_result", "thinking", "reasoning")


def without_blocks(body: object) -> object:
    """Turn blocks into messages of tools, calls and thoughts."""
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(messages, list):
        return body
    return {**body, "messages": [part for message in messages for part in unblocked(message)]}


def unblocked(message: object) -> Iterator[object]:
    """Yield the results in a message, each as one of its own, and then what else it says."""
    content = message.get("content") if isinstance(message, dict) else None
    listed = content if isinstance(content, list) else []
    if not isinstance(message, dict) or not any(kind_of(part) in BLOCKS for part in listed):
        yield message
        return
    blocks = {kind: [part for part in listed if kind_of(part) == kind] for kind in BLOCKS}
    others = [part for part in listed if kind_of(part) not in BLOCKS]
    for result in blocks["tool_result"]:
        fields = {"tool_call_id": result.get("tool_use_id"), "content": result.get("content")}
        yield {"role": "tool", **fields}
    calls = [call_of(block) for block in blocks["tool_use"]]
    thought = "".join(map(thought_in, blocks["thinking"] + blocks["reasoning"]))
    if others or calls or thought:
        yield {
            **({"reasoning_content": thought} if thought else {}),
            **message,
            "content": others,
            **({"tool_calls": calls} if calls else {}),
        }


def kind_of(part: object) -> object:
    return part.get("type") if isinstance(part, Mapping) else None


def call_of(block: Mapping[str, object]) -> Mapping[str, object]:
    function = {"name": block.get("name"), "arguments": block.get("input")}
    return {"id": block.get("id"), "type": "function", "function": function}


def thought_in(block: object) -> str:
    """Return the text of a thought, which Mistral writes as a list of texts."""
    match block:
        case str():
            return block
        case list():
            return "".join(map(thought_in, block))
        case {"thinking": within} | {"reasoning": within} | {"text": within}:
            return thought_in(within)
    return ""
