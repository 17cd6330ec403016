"""The stream of a server, read as pieces of an answer and as measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from localspec.chat.speakers.speaker import AnswerFigures, AnswerRound, Ended, Piece
from localspec.engine.attribution import Span
from localspec.engine.figures import TARGET, PositionCounts
from localspec.engine.job import FinishReason
from localspec.errors import BackendError
from localspec.templates.message import Json

Object = Mapping[str, Json]
KINDS: Mapping[str, Literal["answer", "thought"]] = {
    "reasoning_content": "thought",
    "reasoning": "thought",
    "content": "answer",
}
AT_ONCE = 64  # no more rounds than these are told together
MOST = 1e15  # no number that a server tells of an answer is larger
LETTERS = 500  # of what it says is wrong
NAME = 40  # letters of a proposer's name


@dataclass(slots=True)
class StreamTally:
    """Reads the events of one answer; what cannot be read is left out."""

    begun: float  # seconds, as all that is told here of time
    first: float | None = None
    last: float = 0.0
    pieces: int = 0
    read: float | None = None  # of the prompt, from 0 to 1
    prompt: int = 0  # its tokens, as they are told while it is read
    rounds: list[AnswerRound] = field(default_factory=list)
    finish: FinishReason | None = None
    notices: Sequence[str] = ()
    timings: Object = field(default_factory=dict)
    usage: Object = field(default_factory=dict)

    def take(self, chunk: Json, now: float) -> Iterator[Piece]:
        """Read one event of the stream, which came at `now`."""
        told = objects(chunk)
        if told.get("error"):
            raise BackendError(said_of(told) or "the server failed in mid-answer")
        self.timings = objects(told.get("timings")) or self.timings
        self.usage = objects(told.get("usage")) or self.usage
        self._progress(objects(told.get("prompt_progress")))
        choices = told.get("choices")
        if isinstance(choices, list) and choices:
            choice, trace = objects(choices[0]), objects(told.get("localspec"))
            if isinstance(reason := choice.get("finish_reason"), str):
                self.finish = "length" if reason == "length" else "stop"
            self.notices = list(texts(trace.get("notices"))) or self.notices
            yield from self._said(objects(choice.get("delta")), trace, now)

    def _progress(self, told: Object) -> None:
        if total := count(told, "total"):
            self.prompt = total
            self.read = min(number(told, "processed") / total, 1.0)

    def _said(self, delta: Object, trace: Object, now: float) -> Iterator[Piece]:
        if "by" in trace:
            drafted, accepted = count(trace, "drafted"), count(trace, "accepted")
            each = AnswerRound(drafted, min(accepted, drafted), named(trace["by"]))
            for _ in range(min(max(count(trace, "rounds"), 1), AT_ONCE)):
                self.rounds.append(each)
                yield Piece(round=each)
        kinds = set()
        for name, kind in KINDS.items():
            text = delta.get(name)
            if isinstance(text, str) and text and kind not in kinds:  # some tell thoughts twice
                kinds.add(kind)
                self.first, self.last = self.first or now, now
                self.pieces += 1
                yield Piece(text, kind, spans(trace.get("said"), len(text)))

    def ended(self, finish: FinishReason | None = None) -> Ended:
        return Ended(finish or self.finish or "stop", self.figures(), self.notices)

    def figures(self) -> AnswerFigures:
        """Measure the answer by the server's figures, else by our own clock."""
        told, used = self.timings, self.usage
        tokens = count(used, "completion_tokens") or self._counted()
        seconds = self.last - (self.first or self.last)
        measured = (tokens - 1) / seconds if tokens > 1 and seconds > 0 else 0.0
        drafted = count(told, "draft_n") or sum(each.drafted for each in self.rounds)
        accepted = count(told, "draft_n_accepted") or sum(each.accepted for each in self.rounds)
        rounds = count(told, "rounds") or len(self.rounds)
        return AnswerFigures(
            tokens=tokens,
            prompt=count(used, "prompt_tokens") or self.prompt,
            cached=count(objects(used.get("prompt_tokens_details")), "cached_tokens"),
            first_seconds=self.first - self.begun if self.first else None,
            per_second=number(told, "predicted_per_second") or measured or None,
            speedup=number(told, "speedup") or None,
            # Each round brings what was right, and a token of the target's own.
            rounds=rounds or (max(tokens - accepted, 1) if drafted else 0),
            drafted=drafted,
            accepted=min(accepted, drafted),
            by_source=self._sources(),
            guesses=guesses(objects(told.get("guesses"))),
        )

    def _counted(self) -> int:
        return sum(each.accepted + 1 for each in self.rounds) or self.pieces

    def _sources(self) -> Mapping[str, int]:
        if told := objects(self.timings.get("tokens_by_source")):
            return {named(by): count(told, by) for by in told}
        found: Counter[str] = Counter()
        for each in self.rounds:
            found[TARGET] += 1
            if each.accepted:
                found[each.by] += each.accepted
        return found


def objects(value: Json) -> Object:
    return value if isinstance(value, Mapping) else {}


def number(told: Object, name: str) -> float:
    """Read a number; a missing or impossible one is 0."""
    value = told.get(name)
    return value if isinstance(value, int | float) and 0 <= value <= MOST else 0.0


def count(told: Object, name: str) -> int:
    return int(number(told, name))


def named(value: Json) -> str:
    return "".join(each for each in str(value)[:NAME] if each.isprintable())


def texts(value: Json) -> Iterator[str]:
    yield from (
        each for each in (value if isinstance(value, list) else ()) if isinstance(each, str)
    )


def said_of(told: Object) -> str:
    """Find the message in any of the usual forms of an error, as one line."""
    error = told.get("error")
    forms = (objects(error).get("message"), error, told.get("detail"), told.get("message"))
    found = next((each for each in forms if isinstance(each, str) and each), "")
    return " ".join(found.split())[:LETTERS]


def pairs(value: Json) -> Iterator[tuple[Json, Json]]:
    for each in value if isinstance(value, list) else ():
        if isinstance(each, list) and len(each) == 2:
            yield each[0], each[1]


def spans(value: Json, length: int) -> list[Span]:
    """Read how many characters came from which source, if all are accounted for."""
    found = [(size, named(by)) for size, by in pairs(value) if isinstance(size, int) and size > 0]
    return found if sum(size for size, _ in found) == length else []


def guesses(told: Object) -> Mapping[str, Sequence[PositionCounts]]:
    """Read drafted and accepted counts by proposer and position."""
    return {
        named(by): tuple(
            PositionCounts(drafted, accepted)
            for drafted, accepted in pairs(positions)
            if isinstance(drafted, int)
            and isinstance(accepted, int)
            and 0 <= accepted <= drafted <= MOST
        )
        for by, positions in told.items()
    }
