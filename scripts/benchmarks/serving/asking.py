"""Streamed replies, and when their pieces came."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np

Body = Mapping[str, object]
CHAT = "/v1/chat/completions"
# Fields that LocalSpec has no use for, and the other server would otherwise set differently.
NEUTRAL: Body = {"repeat_penalty": 1.0}


@dataclass(slots=True)
class StreamedReply:
    """A reply so far. A piece is all that came at once: a token, or all tokens of a round."""

    begun: float = 0.0
    ended: float = 0.0
    text: str = ""
    times: list[float] = field(default_factory=list)  # when pieces came
    timings: Mapping[str, float] = field(default_factory=dict)  # LocalSpec's own
    sources: Mapping[str, int] = field(default_factory=dict)  # tokens by proposer

    @property
    def first(self) -> float:
        """The seconds to the first piece."""
        return self.times[0] - self.begun

    @property
    def gaps(self) -> list[float]:
        """The seconds between pieces."""
        return np.diff(self.times).tolist()

    async def listen(self, client: httpx.AsyncClient, body: Body) -> StreamedReply:
        """Send a request, and take in the reply while it comes."""
        self.begun = time.perf_counter()
        async with client.stream("POST", CHAT, json={**body, "stream": True}) as answer:
            if answer.is_error:
                raise SystemExit(f"{answer.status_code}: {(await answer.aread()).decode()}")
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    self._take(line.removeprefix("data: "), time.perf_counter())
        self.ended = time.perf_counter()
        return self

    def _take(self, line: str, now: float) -> None:
        event = json.loads(line)
        if "error" in event:
            raise SystemExit(f"a stream ended with {event['error']}")
        for choice in event["choices"]:
            if piece := choice["delta"].get("content"):
                self.text += piece
                self.times.append(now)
        if timings := event.get("timings"):
            self.sources = timings.pop("tokens_by_source")
            self.timings = timings


async def hear(client: httpx.AsyncClient, body: Body) -> StreamedReply:
    return await StreamedReply().listen(client, body)


def greedy(messages: Sequence[Mapping[str, object]], max_tokens: int) -> dict[str, object]:
    """Make a request for the greedy text."""
    return {"messages": [*messages], "max_tokens": max_tokens, "temperature": 0}


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def apart(number: int) -> dict[str, object]:
    """Make a text that begins as no other does, so that no cache holds it."""
    return {"role": "system", "content": f"Conversation {number}. Answer the user."}
