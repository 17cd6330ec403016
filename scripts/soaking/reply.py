"""Replies, whole or streamed, and checks that they follow the API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import BaseModel, ValidationError

Body = Mapping[str, object]
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
WHOLE: Mapping[str, type[BaseModel]] = {CHAT: ChatCompletion, COMPLETIONS: Completion}


class Wrong(Exception):
    """Raised for a result that no request may have."""


@dataclass(slots=True)
class SoakReply:
    """The texts and endings of the choices. Choices of a stream may come in any order."""

    path: str
    choices: int = 1
    texts: dict[int, str] = field(default_factory=dict)
    arguments: dict[tuple[int, int], str] = field(default_factory=dict)  # of calls
    endings: dict[int, str] = field(default_factory=dict)
    over: bool = False

    def read(self, data: str) -> None:
        """Take in a whole answer."""
        validate(WHOLE[self.path], data)
        for choice in json.loads(data)["choices"]:
            self._grow(choice, choice.get("message", choice))
            self._end(choice)
        self.over = True
        self.close()

    def take(self, line: str) -> None:
        """Take in a line of a stream."""
        if not line.startswith("data: "):
            return
        if self.over:
            raise Wrong("a stream goes on after [DONE]")
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            self.over = True
            return
        event = json.loads(data)
        if "error" in event:
            raise Wrong(f"a stream failed: {event['error']}")
        if self.path == CHAT:
            validate(ChatCompletionChunk, data)
        for choice in event["choices"]:
            self._grow(choice, choice.get("delta", choice))
            if choice["finish_reason"]:
                self._end(choice)

    def close(self) -> None:
        """Check that everything ended."""
        if not self.over:
            raise Wrong("a stream ends without [DONE]")
        if sorted(self.endings) != list(range(self.choices)):
            raise Wrong(f"of {self.choices} choices these ended: {self.endings}")

    def _grow(self, choice: Mapping[str, int], delta: Mapping[str, object]) -> None:
        index = choice["index"]
        if index in self.endings:
            raise Wrong(f"choice {index} goes on after its end")
        text = delta.get("content") or delta.get("text") or ""
        self.texts[index] = self.texts.get(index, "") + str(text)
        calls = delta.get("tool_calls") or []
        assert isinstance(calls, list)
        for at, call in enumerate(calls):
            where = index, call.get("index", at)
            self.arguments[where] = self.arguments.get(where, "") + call["function"]["arguments"]

    def _end(self, choice: Mapping[str, int | str]) -> None:
        reason = str(choice["finish_reason"])
        if reason not in ("stop", "length", "tool_calls"):
            raise Wrong(f"a reply ended by {reason}")
        self.endings[int(choice["index"])] = reason


def validate(kind: type[BaseModel], data: str) -> None:
    """Check a reply as the official client parsed it."""
    try:
        kind.model_validate_json(data)
    except ValidationError as error:
        raise Wrong(f"no {kind.__name__}: {error}") from error
