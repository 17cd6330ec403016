"""One request on its way: what was asked, how far it is, and who listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from localspec.figures import Clockwork, Ledger, Speculation, Timings, Usage
from localspec.generation import Generation
from localspec.logprobs import EmittedLogprob
from localspec.settings import Settings
from localspec.tokens import Tokens

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one round added. The first `accepted` tokens were guessed by `by`."""

    text: str
    tokens: tuple[int, ...]
    accepted: int
    by: str
    logprobs: tuple[EmittedLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """A whole reply. `tokens` holds all that was emitted, a closing end token included."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seed: int
    usage: Usage
    timings: Timings
    speculation: Speculation
    logprobs: tuple[EmittedLogprob, ...] | None = None


Event = Chunk | Result | Exception  # a request ends with one of the latter two


@dataclass(slots=True, eq=False)
class Job:
    prompt: Tokens
    settings: Settings
    seed: int
    listener: Callable[[Event], None]
    clock: Clockwork
    ledger: Ledger = field(default_factory=Ledger)
    generation: Generation | None = None  # once it has a slot
    cancelled: bool = False  # any thread may set it; looked at between rounds
    reused: int = 0  # tokens of the prompt the slot held already
    texts: list[str] = field(default_factory=list)
    logprobs: list[EmittedLogprob] = field(default_factory=list)

    def publish(self, chunk: Chunk) -> None:
        self.texts.append(chunk.text)
        self.logprobs.extend(chunk.logprobs)
        self.listener(chunk)

    def finish(self, reason: FinishReason, now: float) -> None:
        g = self.generation
        emitted = tuple(g.tokens[g.prompt :].tolist()) if g else ()
        self.listener(
            Result(
                text="".join(self.texts),
                tokens=emitted,
                finish_reason=reason,
                seed=self.seed,
                usage=Usage(len(self.prompt), self.reused, len(emitted)),
                timings=self.clock.report(now),
                speculation=self.ledger.report(),
                logprobs=None if self.settings.logprobs is None else tuple(self.logprobs),
            )
        )
