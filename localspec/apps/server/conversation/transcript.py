"""Writes the entries of a conversation as the messages that chat templates read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from localspec.apps.server.conversation.entries import (
    Call,
    Content,
    Entry,
    Result,
    Speech,
    Thought,
)
from localspec.formats.templates.message import Json, Message

Names = Mapping[tuple[str, str], str]  # what the model calls a tool, by its namespace and name
THINKS, SAYS, CALLS, ENDED = range(4)  # a reply goes through them in this order


def messages_of(groups: Iterable[Iterable[Entry]], names: Names | None = None) -> list[Message]:
    """Write groups of entries, of which none is joined with another.

    names: where it is given, a result gets the name of the tool that was called
    """
    transcript = Transcript(names)
    for group in groups:
        for entry in group:
            transcript.add(entry)
        transcript.end()
    return transcript.messages


def written(content: Content) -> Json:
    """Return one text as it is, and else parts: texts, and a place for each picture and sound."""
    match content:
        case []:
            return ""
        case [str(only)]:
            return only
    return [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": part.kind}
        for part in content
    ]


class Transcript:
    """Joins entries of one reply into a message."""

    def __init__(self, names: Names | None) -> None:
        self.messages: list[Message] = []
        self._names = names
        self._reply: dict[str, Json] = {}  # the newest, which may still grow
        self._calls: list[Json] = []  # of it
        self._stage = ENDED
        self._called: dict[str | None, str] = {}  # tools, by the identifiers of calls

    def add(self, entry: Entry) -> None:
        match entry:
            case Thought(text):
                self._go_on(THINKS)["reasoning_content"] = text
            case Speech("assistant", content, name):
                self._go_on(SAYS).update(content=written(content), **present({"name": name}))
            case Speech(role, content, name):
                self._put(role, content, {"name": name})
            case Call():
                self._call(entry)
            case Result(call_id, content, name):
                called = None if self._names is None else self._called.get(call_id)
                self._put("tool", content, {"tool_call_id": call_id, "name": name or called})

    def end(self) -> None:
        self._stage = ENDED

    def _put(self, role: str, content: Content, fields: Mapping[str, str | None]) -> None:
        self.messages.append({"role": role, "content": written(content), **present(fields)})
        self.end()

    def _go_on(self, stage: int) -> dict[str, Json]:
        if stage < self._stage or stage == self._stage != CALLS:
            self._reply, self._calls = {"role": "assistant"}, []
            self.messages.append(self._reply)
        self._stage = stage
        return self._reply

    def _call(self, call: Call) -> None:
        name = (self._names or {}).get((call.space, call.name), call.name)
        self._called[call.id] = name
        reply = self._go_on(CALLS)
        function = {"name": name, "arguments": call.arguments}
        identity = present({"id": call.id})
        self._calls.append({**identity, "type": "function", "function": function})
        reply["tool_calls"] = self._calls


def present(fields: Mapping[str, str | None]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}
