"""One streamed reply, and when its pieces came.

Lines are read by plain threads and taken apart when the reply is over: the machine's cores are the
servers'.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from benchmarks.comparison.drafts import Drafts, of_timings

CHAT = "/v1/chat/completions"
SECONDS = 1800.0  # to wait for a piece
AT_ONCE_SECONDS = 0.0005  # tokens of one round that a server sends one by one are one piece

Body = Mapping[str, object]
Timed = Sequence[tuple[float, bytes]]  # lines, and when they came


class AskingError(Exception):
    """A reply that did not come to its end."""


@dataclass(frozen=True, slots=True)
class TimedReply:
    category: str
    text: str
    tokens: int
    prompt_tokens: int
    cached_tokens: int  # of the prompt
    first_seconds: float
    first_tokens: int  # that came with the first one, about
    decoding_seconds: float  # from the first piece to the last
    gaps: tuple[float, ...]  # seconds between pieces
    drafts: Drafts = field(default_factory=Drafts)

    @property
    def decoded(self) -> int:
        """The tokens after those that came first."""
        return max(self.tokens - self.first_tokens, 0)

    @property
    def seconds(self) -> float:
        return self.first_seconds + self.decoding_seconds


def ask(address: str, body: Body, category: str) -> TimedReply:
    """Ask a server and take in the whole reply; an AskingError if it is not one."""
    place = urlsplit(address)
    line = http.client.HTTPConnection(place.hostname or "", place.port, timeout=SECONDS)
    data, kind = json.dumps(body), {"Content-Type": "application/json"}
    begun = time.perf_counter()
    try:
        line.request("POST", CHAT, data, kind)
        answer = line.getresponse()
        if answer.status != 200:
            raise AskingError(
                f"status {answer.status}: {answer.read(500).decode(errors='replace')}"
            )
        lines = [(time.perf_counter(), raw) for raw in answer if raw.startswith(b"data: {")]
    except (OSError, http.client.HTTPException) as error:
        raise AskingError(f"{type(error).__name__}: {error}") from error
    finally:
        line.close()
    return reply_of(lines, begun, category)


def reply_of(lines: Timed, begun: float, category: str) -> TimedReply:
    """Take the lines of a reply apart."""
    events = [(came, json.loads(raw.removeprefix(b"data: "))) for came, raw in lines]
    pieces = [(came, piece) for came, event in events if (piece := piece_of(event))]
    usage = next((event["usage"] for _, event in reversed(events) if event.get("usage")), None)
    if usage is None:
        raise AskingError("the reply ended before its usage was told")
    timings: Mapping[str, object] = next(
        (event["timings"] for _, event in reversed(events) if "timings" in event), {}
    )
    times = [came for came, _ in pieces] or [events[-1][0]]
    text, tokens = "".join(piece for _, piece in pieces), usage["completion_tokens"]
    at_first = sum(len(piece) for came, piece in pieces if came - times[0] <= AT_ONCE_SECONDS)
    return TimedReply(
        category,
        text,
        tokens,
        usage["prompt_tokens"],
        (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0,
        times[0] - begun,
        max(1, round(tokens * at_first / max(len(text), 1))),
        times[-1] - times[0],
        tuple(gaps(times)),
        of_timings(timings),
    )


def piece_of(event: Mapping[str, object]) -> str:
    """Return the text an event brings, thoughts included."""
    if "error" in event:
        raise AskingError(f"the stream ended with {event['error']}")
    choices = event.get("choices")
    assert isinstance(choices, list)
    deltas = [choice.get("delta") or {} for choice in choices]
    names = ("reasoning_content", "content")
    return "".join(delta.get(name) or "" for delta in deltas for name in names)


def gaps(times: Sequence[float]) -> Iterator[float]:
    last = times[0]
    for came in times[1:]:
        if came - last > AT_ONCE_SECONDS:
            yield came - last
        last = came
