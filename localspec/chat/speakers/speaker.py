"""Who answers: the seam between a conversation and a model in this process, or a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from localspec.engine.attribution import Span
from localspec.engine.figures import PositionCounts
from localspec.engine.job import FinishReason
from localspec.engine.settings import Settings
from localspec.templates.message import Message


@dataclass(frozen=True, slots=True)
class Round:
    """What was guessed in a round, and how much of that was right."""

    drafted: int
    accepted: int
    by: str


@dataclass(frozen=True, slots=True)
class Piece:
    """What an answer went on with."""

    text: str = ""
    kind: Literal["answer", "thought"] = "answer"
    said: Sequence[Span] = ()  # who said its characters
    round: Round | None = None  # of each round once


@dataclass(frozen=True, slots=True)
class Figures:
    """What an answer took; nothing of what is not known."""

    tokens: int = 0
    prompt: int = 0
    cached: int = 0  # of the prompt
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
    figures: Figures
    notices: Sequence[str] = ()


class Answer(Protocol):
    """One answer on its way, which is taken by one thread."""

    def next(self, seconds: float) -> Piece | Ended | None:
        """What comes next, or nothing in so many seconds. Raises what went wrong."""

    @property
    def read(self) -> float | None:
        """How much of the prompt was read, from 0 to 1, if that is known."""

    def cancel(self) -> None:
        """Come to an end soon; what was said until then stays."""


class Speaker(Protocol):
    name: str
    context: int  # tokens of conversation and answer; 0: not known

    @property
    def about(self) -> Sequence[str]:
        """Two lines: what it is, and how it is run."""

    def count(self, messages: Sequence[Message]) -> int | None:
        """The tokens that ask for the next answer, if they can be counted."""

    def ask(self, messages: Sequence[Message], settings: Settings) -> Answer: ...

    def close(self) -> None: ...
