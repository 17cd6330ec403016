"""Tools for a model whose chat template knows none: described in words, called in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from localspec.formats.templates.capabilities import Takes
from localspec.formats.templates.message import Json, Message, Tool, text_of

OFFER = "You can call these functions:"
CALL = (
    'To call one, answer with a JSON object and nothing else: {"name": NAME, "arguments": OBJECT}. '
    "Answer in words where no function is needed."
)


def add_instructions(
    messages: Sequence[Message], tools: Sequence[Tool], takes: Takes
) -> tuple[list[Message], Sequence[Tool]]:
    """Return the conversation with tools in words if needed, and the tools left to the template."""
    shown = takes.calls and (takes.calls_without_tools or bool(tools))
    shown_messages = list(messages) if shown else [in_words(message) for message in messages]
    if not tools or takes.tools:
        return shown_messages, tools
    lines = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
    return [{"role": "system", "content": "\n".join([OFFER, *lines, CALL])}, *shown_messages], ()


def in_words(message: Message) -> Message:
    """Put a call or its result in words."""
    calls = message.get("tool_calls")
    if message.get("role") == "tool":
        return {"role": "user", "content": f"The function returned: {text_of(message)}"}
    if not isinstance(calls, Sequence) or isinstance(calls, str) or not calls:
        return message
    lines = [text_of(message), *map(_call_in_words, calls)]
    return {"role": "assistant", "content": "\n".join(filter(None, lines))}


def _call_in_words(call: Json) -> str:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return ""
    arguments = function.get("arguments")
    is_text = isinstance(arguments, str)
    written = arguments if is_text else json.dumps(arguments or {}, ensure_ascii=False)
    return f'{{"name": {json.dumps(function.get("name"))}, "arguments": {written}}}'
