"""What a server streams, read as pieces of an answer and as what it took."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from localspec.chat.speaker import Ended, Figures, Piece, Round
from localspec.errors import BackendError
from localspec.figures import TARGET, Guesses
from localspec.job import FinishReason
from localspec.message import Json
from localspec.trail import Span

Object = Mapping[str, Json]
KINDS: Mapping[str, Literal["answer", "thought"]] = {
    "content": "answer",
    "reasoning_content": "thought",
    "reasoning": "thought",
}


@dataclass(slots=True)
class Tally:
    """A server may say anything: what cannot be read is left out."""

    begun: float = field(default_factory=time.perf_counter)
    first: float | None = None
    last: float = 0.0
    pieces: int = 0
    rounds: list[Round] = field(default_factory=list)
    finish: FinishReason = "stop"
    timings: Object = field(default_factory=dict)
    usage: Object = field(default_factory=dict)

    def take(self, chunk: Json) -> Iterator[Piece]:
        """One event of the stream."""
        told = objects(chunk)
        if "error" in told:
            error = told["error"]
            raise BackendError(str(objects(error).get("message") or error))
        self.timings = objects(told.get("timings")) or self.timings
        self.usage = objects(told.get("usage")) or self.usage
        choices = told.get("choices")
        if isinstance(choices, list) and choices:
            choice = objects(choices[0])
            if choice.get("finish_reason") == "length":
                self.finish = "length"
            yield from self._said(objects(choice.get("delta")), objects(told.get("localspec")))

    def _said(self, delta: Object, trace: Object) -> Iterator[Piece]:
        if "by" in trace:
            counts = number(trace, "drafted"), number(trace, "accepted")
            self.rounds.append(Round(int(counts[0]), int(counts[1]), str(trace["by"])))
            yield Piece(round=self.rounds[-1])
        for name, kind in KINDS.items():
            text = delta.get(name)
            if isinstance(text, str) and text:
                self.last = time.perf_counter()
                self.first = self.first or self.last
                self.pieces += 1
                yield Piece(text, kind, list(spans(trace.get("said"))))

    def ended(self, finish: FinishReason | None = None) -> Ended:
        return Ended(finish or self.finish, self.figures())

    def figures(self) -> Figures:
        """By what the server tells of itself, else by our own clock."""
        told, used = self.timings, self.usage
        details = objects(used.get("prompt_tokens_details"))
        tokens = int(number(used, "completion_tokens")) or self._counted()
        seconds = self.last - (self.first or self.last)
        measured = (tokens - 1) / seconds if tokens > 1 and seconds > 0 else 0.0
        return Figures(
            tokens=tokens,
            prompt=int(number(used, "prompt_tokens")),
            cached=int(number(details, "cached_tokens")),
            first_seconds=self.first - self.begun if self.first else None,
            per_second=number(told, "predicted_per_second") or measured or None,
            plain_per_second=number(told, "plain_per_second") or None,
            rounds=int(number(told, "rounds")) or len(self.rounds),
            drafted=int(number(told, "draft_n")) or sum(each.drafted for each in self.rounds),
            accepted=int(number(told, "draft_n_accepted"))
            or sum(each.accepted for each in self.rounds),
            by_source=self._sources(),
            guesses=guesses(objects(told.get("guesses"))),
        )

    def _counted(self) -> int:
        return sum(each.accepted + 1 for each in self.rounds) or self.pieces

    def _sources(self) -> Mapping[str, int]:
        if told := objects(self.timings.get("tokens_by_source")):
            return {by: int(number(told, by)) for by in told}
        found: Counter[str] = Counter()
        for each in self.rounds:
            found[TARGET] += 1
            if each.accepted:
                found[each.by] += each.accepted
        return found


def objects(value: Json) -> Object:
    return value if isinstance(value, Mapping) else {}


def number(told: Object, name: str) -> float:
    value = told.get(name)
    return value if isinstance(value, int | float) else 0.0


def pairs(value: Json) -> Iterator[tuple[Json, Json]]:
    for each in value if isinstance(value, list) else ():
        if isinstance(each, list) and len(each) == 2:
            yield each[0], each[1]


def spans(value: Json) -> Iterator[Span]:
    for count, by in pairs(value):
        if isinstance(count, int):
            yield count, str(by)


def guesses(told: Object) -> Mapping[str, list[Guesses]]:
    """Of each guesser by position: how often it was asked, and right."""
    return {
        by: [
            Guesses(drafted, accepted)
            for drafted, accepted in pairs(positions)
            if isinstance(drafted, int) and isinstance(accepted, int)
        ]
        for by, positions in told.items()
    }
