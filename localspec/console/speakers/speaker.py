"""The seam between a conversation and a model in this process, or behind a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from localspec.core.requests.attribution import Span
from localspec.core.requests.figures import PositionCounts
from localspec.core.requests.job import FinishReason
from localspec.core.requests.settings import Settings
from localspec.formats.templates.message import Message, text_of


@dataclass(frozen=True, slots=True)
class AnswerRound:
    """The tokens drafted and accepted in one round."""

    drafted: int
    accepted: int
    by: str


@dataclass(frozen=True, slots=True)
class Piece:
    """The next part of an answer."""

    text: str = ""
    kind: Literal["answer", "thought"] = "answer"
    spans: Sequence[Span] = ()  # the source of its characters
    round: AnswerRound | None = None  # of each round once


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """Measurements of an answer; unknown ones keep their defaults."""

    tokens: int = 0
    prompt: int = 0
    cached: int = 0  # of the prompt
    thought: int = 0  # of the answer
    thoughts_cut: int = 0  # because their budget was spent
    first_seconds: float | None = None
    per_second: float | None = None
    speedup: float | None = None  # over plain decoding, as estimated
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    by_source: Mapping[str, int] = field(default_factory=dict)
    guesses: Mapping[str, Sequence[PositionCounts]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    finish: FinishReason
    figures: AnswerFigures
    notices: Sequence[str] = ()


class LiveAnswer(Protocol):
    """One answer in progress, read by one thread."""

    def next(self, seconds: float) -> Piece | Ended | None:
        """Return what comes next, or None after so many seconds; raise what went wrong."""

    @property
    def read(self) -> float | None:
        """The share of the prompt that was read, from 0 to 1, where it is known."""

    def cancel(self) -> None:
        """End soon; the text up to then stays."""


class Speaker(Protocol):
    name: str
    context: int  # tokens of conversation and answer; 0: not known

    @property
    def thinks(self) -> bool | None:
        """Whether the model can think before it answers; None: not known."""

    @property
    def sees(self) -> bool | None:
        """Whether the model takes pictures; one that does not gets the texts alone."""

    @property
    def about(self) -> Sequence[str]:
        """Two lines: the model, and how it runs."""

    def count(self, messages: Sequence[Message]) -> int | None:
        """Count the tokens that would ask for the next answer, if that is possible."""

    def ask(
        self, messages: Sequence[Message], settings: Settings, *, think: bool | None = None
    ) -> LiveAnswer:
        """Begin an answer, with thinking or without where that can be chosen."""

    def read_ahead(
        self, messages: Sequence[Message], settings: Settings, *, think: bool | None = None
    ) -> None:
        """Read a conversation whose next question is being typed, until that is asked."""

    def close(self) -> None: ...


def texts_of(messages: Sequence[Message]) -> list[Message]:
    """Return messages without their pictures."""
    return [{**message, "content": text_of(message)} for message in messages]
