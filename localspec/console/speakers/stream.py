"""The stream of a server, read as pieces of an answer and as measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from localspec.base.errors import BackendError
from localspec.console.speakers.speaker import AnswerFigures, AnswerRound, Ended, Piece
from localspec.core.requests.attribution import Span
from localspec.core.requests.figures import TARGET, PositionCounts
from localspec.core.requests.job import FinishReason
from localspec.formats.templates.message import Json

Object = Mapping[str, Json]
KINDS: Mapping[str, Literal["answer", "thought"]] = {
    "reasoning_content": "thought",
    "reasoning": "thought",
    "content": "answer",
}
AT_ONCE = 64  # rounds that are reported together, at most
MOST = 1e15  # largest number that is read of a server's figures
LETTERS = 500  # of an error's message
NAME = 40  # letters of a proposer's name


@dataclass(slots=True)
class StreamTally:
    """Reads the events of one answer; what cannot be read is left out."""

    begun: float  # seconds, as all times here
    first: float | None = None
    last: float = 0.0
    pieces: int = 0
    read: float | None = None  # of the prompt, from 0 to 1
    prompt: int = 0  # its tokens, as reported while it is read
    rounds: list[AnswerRound] = field(default_factory=list)
    finish: FinishReason | None = None
    notices: Sequence[str] = ()
    timings: Object = field(default_factory=dict)
    usage: Object = field(default_factory=dict)

    def take(self, chunk: Json, now: float) -> Iterator[Piece]:
        """Read one event of the stream, which came at `now`."""
        event = objects(chunk)
        if event.get("error"):
            raise BackendError(error_message(event) or "the server failed in mid-answer")
        self.timings = objects(event.get("timings")) or self.timings
        self.usage = objects(event.get("usage")) or self.usage
        self._progress(objects(event.get("prompt_progress")))
        choices = event.get("choices")
        if isinstance(choices, list) and choices:
            choice, trace = objects(choices[0]), objects(event.get("localspec"))
            if isinstance(reason := choice.get("finish_reason"), str):
                self.finish = "length" if reason == "length" else "stop"
            self.notices = list(texts(trace.get("notices"))) or self.notices
            yield from self._pieces(objects(choice.get("delta")), trace, now)

    def _progress(self, progress: Object) -> None:
        if total := count(progress, "total"):
            self.prompt = total
            self.read = min(number(progress, "processed") / total, 1.0)

    def _pieces(self, delta: Object, trace: Object, now: float) -> Iterator[Piece]:
        if "by" in trace:
            drafted, accepted = count(trace, "drafted"), count(trace, "accepted")
            round_ = AnswerRound(drafted, min(accepted, drafted), printable_name(trace["by"]))
            for _ in range(min(max(count(trace, "rounds"), 1), AT_ONCE)):
                self.rounds.append(round_)
                yield Piece(round=round_)
        kinds = set()
        for name, kind in KINDS.items():
            text = delta.get(name)
            if isinstance(text, str) and text and kind not in kinds:  # some send thoughts twice
                kinds.add(kind)
                self.first, self.last = self.first or now, now
                self.pieces += 1
                yield Piece(text, kind, spans(trace.get("said"), len(text)))

    def end(self, finish: FinishReason | None = None) -> Ended:
        return Ended(finish or self.finish or "stop", self.figures(), self.notices)

    def figures(self) -> AnswerFigures:
        """Measure the answer by the server's figures, else by our own clock."""
        timings, used = self.timings, self.usage
        emitted = sum(round_.accepted + 1 for round_ in self.rounds) or self.pieces
        tokens = count(used, "completion_tokens") or emitted
        seconds = self.last - (self.first or self.last)
        measured = (tokens - 1) / seconds if tokens > 1 and seconds > 0 else 0.0
        drafted = count(timings, "draft_n") or sum(round_.drafted for round_ in self.rounds)
        accepted = count(timings, "draft_n_accepted") or sum(
            round_.accepted for round_ in self.rounds
        )
        rounds = count(timings, "rounds") or len(self.rounds)
        return AnswerFigures(
            tokens=tokens,
            prompt=count(used, "prompt_tokens") or self.prompt,
            cached=count(objects(used.get("prompt_tokens_details")), "cached_tokens"),
            thought=count(objects(used.get("completion_tokens_details")), "reasoning_tokens"),
            thoughts_cut=count(timings, "thoughts_cut"),
            first_seconds=self.first - self.begun if self.first else None,
            per_second=number(timings, "predicted_per_second") or measured or None,
            speedup=number(timings, "speedup") or None,
            # Each round brings what was right, and a token of the target's own.
            rounds=rounds or (max(tokens - accepted, 1) if drafted else 0),
            drafted=drafted,
            accepted=min(accepted, drafted),
            by_source=self._sources(),
            guesses=guesses(objects(timings.get("guesses"))),
        )

    def _sources(self) -> Mapping[str, int]:
        if by_source := objects(self.timings.get("tokens_by_source")):
            return {printable_name(by): count(by_source, by) for by in by_source}
        tokens: Counter[str] = Counter()
        for round_ in self.rounds:
            tokens[TARGET] += 1
            if round_.accepted:
                tokens[round_.by] += round_.accepted
        return tokens


def objects(value: Json) -> Object:
    return value if isinstance(value, Mapping) else {}


def number(data: Object, name: str) -> float:
    """Read a number; a missing or impossible one is 0."""
    value = data.get(name)
    return value if isinstance(value, int | float) and 0 <= value <= MOST else 0.0


def count(data: Object, name: str) -> int:
    return int(number(data, name))


def printable_name(value: Json) -> str:
    return "".join(character for character in str(value)[:NAME] if character.isprintable())


def texts(value: Json) -> Iterator[str]:
    yield from (
        entry for entry in (value if isinstance(value, list) else ()) if isinstance(entry, str)
    )


def error_message(body: Object) -> str:
    """Find the message in any of the usual forms of an error, as one line."""
    error = body.get("error")
    forms = (objects(error).get("message"), error, body.get("detail"), body.get("message"))
    message = next((form for form in forms if isinstance(form, str) and form), "")
    return " ".join(message.split())[:LETTERS]


def pairs(value: Json) -> Iterator[tuple[Json, Json]]:
    for pair in value if isinstance(value, list) else ():
        if isinstance(pair, list) and len(pair) == 2:
            yield pair[0], pair[1]


def spans(value: Json, length: int) -> list[Span]:
    """Read how many characters came from which source, if all are accounted for."""
    sources = [
        (size, printable_name(by))
        for size, by in pairs(value)
        if isinstance(size, int) and size > 0
    ]
    return sources if sum(size for size, _ in sources) == length else []


def guesses(data: Object) -> Mapping[str, Sequence[PositionCounts]]:
    """Read drafted and accepted counts by proposer and position."""
    return {
        printable_name(by): tuple(
            PositionCounts(drafted, accepted)
            for drafted, accepted in pairs(positions)
            if isinstance(drafted, int)
            and isinstance(accepted, int)
            and 0 <= accepted <= drafted <= MOST
        )
        for by, positions in data.items()
    }
