"""Texts, JSON and conversations as the state of a decision, and as the words of its questions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import BeforeValidator

from localspec.apps.server.conversation.entries import BREAK, Call, Entry, Result, Speech, Thought
from localspec.apps.server.conversation.items import MessagesOrItems
from localspec.apps.server.conversation.parts import Parts, content_of
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.interfaces.media import Medium
from localspec.running.runtime.decisions.prompts import State


def as_text(value: object) -> str:
    """Write JSON that is no text as such."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def with_json(value: object) -> object:
    """Read parts that are JSON as texts, in lists and in the contents of messages."""
    if isinstance(value, list):
        return [with_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "input_json":
        return {"type": "input_text", "text": as_text(value.get("data"))}
    return {**value, "content": with_json(value["content"])} if "content" in value else value


def as_messages(value: object) -> object:
    return [value] if isinstance(value, str) else with_json(value)


Messages = Annotated[MessagesOrItems, BeforeValidator(as_messages)]
Words = Annotated[Parts, BeforeValidator(with_json)]  # of a question


def state_of(entries: Sequence[Entry], media: Iterable[Medium]) -> State:
    """Write a conversation as one text, with its pictures and sounds; a text alone as it is."""
    pictures = iter(media)
    match entries:
        case [Speech("user", content)]:
            parts = content
        case _:
            parts = [part for entry in entries for part in headed(entry)]
    state: list[str | Medium] = []
    for part in parts:
        if isinstance(part, MediaReference):
            state.append(next(pictures))
        elif state and isinstance(state[-1], str):
            state[-1] += part
        else:
            state.append(part)
    return state


def headed(entry: Entry) -> Iterator[str | MediaReference]:
    """Yield an entry of a conversation with a line that says what it is."""
    match entry:
        case Speech(role, content):
            yield f"[{role}]\n"
            yield from content
        case Thought(text):
            yield f"[assistant, thinking]\n{text}"
        case Call(_, name, arguments):
            yield f"[call of {name}]\n{as_text(arguments)}"
        case Result(_, content, name):
            yield f"[result of {name}]\n" if name else "[result]\n"
            yield from content
    yield BREAK


def words_of(parts: Words) -> str | None:
    """Join the texts of a question; None if it has a picture or a sound."""
    content = content_of(parts)
    texts = [part for part in content if isinstance(part, str)]
    return BREAK.join(texts) if len(texts) == len(content) else None
