"""Put a conversation in the forms that a chat template reads; others stay as they came.

All of it takes time in proportion to the conversation: a client may send any.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby

from localspec.base.errors import UsageError
from localspec.formats.templates.capabilities import (
    Takes,
    as_parts,
    identity,
    thoughtful,
    without_content,
)
from localspec.formats.templates.message import Json, Message, text_of
from localspec.formats.templates.partial_json import read_object

# One thing, as templates name it.
REASONING = ("reasoning_content", "thinking", "reasoning", "tool_plan")
RULES = ("system", "developer")  # roles of messages that say how to answer
BREAK = "\n\n"  # between messages that become one


def conversation(messages: Sequence[Message], takes: Takes) -> list[Message]:
    """Return the conversation in forms that a template neither refuses nor drops."""
    adapted: Iterable[Message] = [_put(message, takes) for message in messages]
    if not takes.names:
        adapted = _name_calls(adapted)
    if not takes.systems:
        adapted = _place_rules(adapted, takes)
    if not takes.repeats:
        adapted = _merge_roles(adapted)
    if not takes.parallel:
        adapted = _in_turn(list(adapted), takes)
    adapted = list(adapted) if takes.replies_without_reasoning else thoughtful(list(adapted))
    return list(adapted) if takes.text else as_parts(list(adapted))


def _put(message: Message, takes: Takes) -> Message:
    put = {name: value for name, value in message.items() if value is not None}
    if put.get("role") == "developer" and not takes.developer:
        put["role"] = "system"
    match put.get("content"):
        case [*parts]:
            _check(parts)
            put["content"] = parts if takes.parts else text_of(message)
    match put.get("tool_call_id"):
        case str(identity):
            put["tool_call_id"] = _identity(identity, takes)
    match put.get("tool_calls"):
        case [_, *_] as calls:
            put["tool_calls"] = [_adapt_call(call, takes) for call in calls]
            return _calling(_copy_reasoning(put), takes)
        case []:
            del put["tool_calls"]
    return _copy_reasoning(put if "content" in put else {**put, "content": ""})


def _check(parts: Sequence[Json]) -> None:
    for part in parts:
        match part:
            case {"text": str()}:
                continue
            case {"type": str(kind)}:
                raise UsageError(f'a message has a part of type "{kind}": only texts can be read')
        raise UsageError("a message has a part that is no text")


def _calling(message: Message, takes: Takes) -> Message:
    content, thought = text_of(message), message.get("thinking")
    if not message.get("content"):
        return without_content(message, takes.absent if takes.calls else "empty")
    if isinstance(thought, str) and not takes.reasoning_beside_calls:
        whole = BREAK.join((thought, content))
        return without_content({**message, **dict.fromkeys(REASONING, whole)}, takes.absent)
    return message


def _copy_reasoning(message: Message) -> Message:
    """Put reasoning under each name that templates have for it."""
    for name in REASONING:
        if name in message:
            thought = message[name]
            return {**dict.fromkeys(REASONING, thought), **message, "reasoning_content": thought}
    return message


def _adapt_call(call: Json, takes: Takes) -> Json:
    if not isinstance(call, Mapping):
        return call
    readable_call = dict(call)
    match call.get("id"):
        case str(identity):
            readable_call["id"] = _identity(identity, takes)
    function = call.get("function")
    if isinstance(function, Mapping):
        arguments = _arguments(function.get("arguments"), takes)
        readable_call["function"] = {**function, "arguments": arguments}
    return readable_call


def _arguments(arguments: Json, takes: Takes) -> Json:
    """Return arguments as an object or a text, whichever the template reads."""
    if isinstance(arguments, Mapping) and takes.objects:
        return arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    if arguments is None or not text.strip():
        text = "{}"
    return text if takes.written or isinstance(arguments, Mapping) else read_object(text)


def _identity(call_id: str, takes: Takes) -> str:
    """Return an identifier; a hash of nine characters where a template takes no longer one."""
    if takes.ids or (len(call_id) == 9 and call_id.isalnum()):
        return call_id
    return hashlib.blake2b(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:9]


def _name_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """Give calls and their results identifiers that contain the names of the calls."""
    new_ids: dict[Json, str] = {}
    for message in messages:
        match message:
            case {"tool_calls": [*calls]}:
                renamed = [_rename_call(call, new_ids) for call in calls]
                yield {**message, "tool_calls": renamed}
            case {"tool_call_id": str(call_id)} if call_id in new_ids:
                yield {**message, "tool_call_id": new_ids[call_id]}
            case _:
                yield message


def _rename_call(call: Json, new_ids: dict[Json, str]) -> Json:
    function = call.get("function") if isinstance(call, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(name, str):
        return call
    new_id, call_id = identity(name, len(new_ids)), call.get("id")
    new_ids[call_id if isinstance(call_id, str) else new_id] = new_id
    return {**call, "id": new_id}


def _place_rules(messages: Iterable[Message], takes: Takes) -> Iterator[Message]:
    """Join rules at the start in one message; put later ones into the user message after them."""
    held: list[Message] = []
    role, opening = "system" if takes.system else "user", True
    for message in messages:
        if message.get("role") in RULES:
            if opening and not held and message["role"] == "developer":
                role = "developer"
            held.append(message)
            continue
        if role == "user" == message.get("role"):
            message = _join([*held, message])
        elif held:
            yield {**_join(held), "role": role}
        yield message
        held, role, opening = [], "user", False
    if held:
        yield {**_join(held), "role": role if takes.alone else "user"}


def _merge_roles(messages: Iterable[Message]) -> Iterator[Message]:
    """Join user messages in a row, and replies in a row."""

    def kind(numbered: tuple[int, Message]) -> Json:
        at, message = numbered
        role = message.get("role")
        return role if role in ("user", "assistant") and "tool_calls" not in message else at

    for _, group in groupby(enumerate(messages), kind):
        yield _join([message for _, message in group])


def _join(messages: Sequence[Message]) -> Message:
    *_, last = messages
    if len(messages) == 1:
        return last
    return {**last, "content": BREAK.join(filter(None, map(text_of, messages)))}


def _in_turn(messages: Iterable[Message], takes: Takes) -> Iterator[Message]:
    """Split a message with several calls into messages with one, each before its results."""
    calling: Message = {}
    results: list[Message] = []
    for message in messages:
        if message.get("role") == "tool":
            results.append(message)
            continue
        yield from _pair_results(calling, results, takes)
        calling, results = message, []
    yield from _pair_results(calling, results, takes)


def _pair_results(message: Message, results: Sequence[Message], takes: Takes) -> Iterator[Message]:
    match message.get("tool_calls"):
        case [_, _, *_] as calls:
            left = _by_call(results)
            for at, call in enumerate(calls):
                yield {**message, "tool_calls": [call]}
                identity = call.get("id") if isinstance(call, Mapping) else None
                named = left.pop(identity, []) if isinstance(identity, str) else []
                yield from named or left.pop(at, [])
                message = without_content({"role": "assistant"}, takes.absent)
            yield from chain.from_iterable(left.values())
        case _:
            yield from [message] if message else ()
            yield from results


def _by_call(results: Sequence[Message]) -> dict[str | int, list[Message]]:
    """Map identifiers of calls to results; a result without one is found by its place."""
    by_call: dict[str | int, list[Message]] = {}
    for at, result in enumerate(results):
        identity = result.get("tool_call_id")
        by_call.setdefault(identity if isinstance(identity, str) else at, []).append(result)
    return by_call
