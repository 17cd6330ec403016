"""One request under way: its generation, its listener, its figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from localspec.decoding.generation import Generation
from localspec.decoding.round import Outcome
from localspec.engine.figures import Clockwork, Ledger, Speculation, Timings, Usage
from localspec.engine.settings import Settings
from localspec.sampling.logprobs import EmittedLogprob, logprobs

FinishReason = Literal["stop", "length", "cancelled"]


class Chunk(NamedTuple):
    """The text and tokens of a round, or of several without drafts.

    The first `accepted` ones were drafted by `by`.
    """

    text: str
    tokens: tuple[int, ...]
    accepted: int
    by: str
    logprobs: tuple[EmittedLogprob, ...] = ()
    drafted: int = 0
    lengths: tuple[int, ...] = ()  # characters that each token completed; an end token has none
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """A whole reply. `tokens` holds all emitted tokens, a closing end token included."""

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seed: int
    usage: Usage
    timings: Timings
    speculation: Speculation
    logprobs: tuple[EmittedLogprob, ...] | None = None
    stopped_by: str | None = None  # the stop text that ended it
    notices: tuple[str, ...] = ()  # events meanwhile that concern the client


Event = Chunk | Result | Exception  # a request ends with one of the latter two
Listener = Callable[[Event], None]


@dataclass(slots=True, eq=False)
class Job:
    """A request that was checked, from the queue to its result."""

    generation: Generation
    settings: Settings
    seed: int
    listener: Listener
    clock: Clockwork
    ledger: Ledger = field(default_factory=Ledger)
    cancelled: bool = False  # any thread may set it; looked at between rounds
    reused: int = 0  # tokens of the prompt the slot held already
    texts: list[str] = field(default_factory=list)
    logprobs: list[EmittedLogprob] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def read(self) -> float:
        """Return the share of the prompt that was read, from 0 to 1; any thread may call it."""
        return min(self.generation.cached / self.generation.prompt_tokens, 1.0)

    def publish(self, outcome: Outcome, now: float) -> None:
        """Tell the listener the text and tokens of a round."""
        g = self.generation
        tokens = tuple(g.tokens[-outcome.emitted :].tolist())
        self.clock.note(now, outcome.emitted)
        self.ledger.note(outcome)
        wanted = self.settings.logprobs
        found = () if wanted is None else tuple(logprobs(outcome.logits, tokens, wanted))
        lengths = tuple(g.text.take_lengths())
        self._send(
            Chunk(
                g.text.take(),
                tokens,
                outcome.accepted,
                outcome.draft.by,
                found,
                len(outcome.draft),
                lengths,
                outcome.rounds,
            )
        )

    def finish(self, reason: FinishReason, speculation: Speculation, now: float) -> None:
        """Tell the listener the result; text held back for a stop text is released first."""
        g = self.generation
        g.text.close()
        if rest := g.text.take():
            self._send(Chunk(rest, (), 0, ""))
        emitted = tuple(g.tokens[g.prompt_tokens :].tolist())
        self.listener(
            Result(
                text="".join(self.texts),
                tokens=emitted,
                finish_reason=reason,
                seed=self.seed,
                usage=Usage(g.prompt_tokens, self.reused, len(emitted)),
                timings=self.clock.report(now),
                speculation=speculation,
                logprobs=None if self.settings.logprobs is None else tuple(self.logprobs),
                stopped_by=g.text.stopped_by,
                notices=tuple(self.notices),
            )
        )

    def _send(self, chunk: Chunk) -> None:
        self.texts.append(chunk.text)
        self.logprobs.extend(chunk.logprobs)
        self.listener(chunk)
