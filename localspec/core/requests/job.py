"""One request under way: its generation, its listener, its figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar, overload, runtime_checkable

from localspec.base.errors import LocalSpecError
from localspec.base.tokens import Tokens
from localspec.core.decoding.generation import Generation
from localspec.core.decoding.turn import Outcome
from localspec.core.requests.figures import Clockwork, Ledger, Speculation, Timings, Usage
from localspec.core.requests.settings import Settings
from localspec.core.sampling.logprobs import EmittedLogprob, logprobs, sampled_logprobs
from localspec.formats.thought.form import ThoughtCount

NEAR_TIE = 0.1  # by which log-probabilities alone and beside others differ, with K-quants
FinishReason = Literal["stop", "length", "cancelled"]


class Chunk(NamedTuple):
    """The text and tokens of a round, or of several without drafts.

    text: what the round added to the text
    tokens: what it emitted
    accepted: how many of these were drafted, the first ones
    by: the proposer that drafted them
    logprobs: of each token, if they were asked for; those of a prompt come before any token
    drafted: tokens that were drafted, accepted or not
    lengths: characters that each token completed; an end token has none
    rounds: how many there were
    reasoning: in a chat, what it added to the reasoning before the answer
    seconds: since the chunk before; of the first, since there was a slot
    rejected: tokens of the draft that the target did not choose
    """

    text: str
    tokens: tuple[int, ...]
    accepted: int
    by: str
    logprobs: tuple[EmittedLogprob, ...] = ()
    drafted: int = 0
    lengths: tuple[int, ...] = ()
    rounds: int = 1
    reasoning: str = ""
    seconds: float = 0.0
    rejected: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool that a reply makes.

    name: the tool's
    arguments: a JSON object as text; cut short where the reply was
    """

    name: str
    arguments: str


@runtime_checkable
class Form(Protocol):
    """A class of pydantic: what JSON is to be, and a reader of it."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]: ...

    @classmethod
    def model_validate_json(cls, json_data: str) -> Self: ...


FormT = TypeVar("FormT", bound=Form)


@dataclass(frozen=True, slots=True)
class Result:
    """A whole reply.

    text: the reply; in a chat, without reasoning and calls
    tokens: all emitted tokens, a closing end token included
    finish_reason: "stop", "length" or "cancelled"
    seed: the one that was used; it gives the same text again
    usage: tokens of the prompt, cached ones, and of the reply
    timings: seconds to the first token, between tokens, in all
    speculation: rounds, drafted and accepted tokens, by position and by proposer
    logprobs: of each token, if they were asked for; those of a prompt come first
    stopped_by: the stop text that ended it, if one did
    notices: events meanwhile that concern the caller, as a draft model that was given up
    reasoning: in a chat, what came before the answer
    tool_calls: in a chat, the calls of tools that were offered
    """

    text: str
    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seed: int
    usage: Usage
    timings: Timings
    speculation: Speculation
    logprobs: tuple[EmittedLogprob, ...] | None = None
    stopped_by: str | None = None
    notices: tuple[str, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @overload
    def parsed(self) -> Any: ...
    @overload
    def parsed(self, form: type[FormT]) -> FormT: ...
    def parsed(self, form: type[FormT] | None = None) -> FormT | Any:
        """Read the text as JSON: as values of Python, or as an object of a pydantic class."""
        try:
            return form.model_validate_json(self.text) if form else json.loads(self.text)
        except ValueError as error:
            if self.finish_reason == "stop":
                raise
            raise LocalSpecError(
                f"the reply has no whole JSON: it ended after {len(self.tokens):,} tokens "
                f"({self.finish_reason}); give more max_tokens"
            ) from error


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
    texts: list[str] = field(default_factory=list)
    logprobs: list[EmittedLogprob] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    reports_ties: bool = False  # of a greedy text, where they are known
    _thought: ThoughtCount | None = field(init=False)

    def __post_init__(self) -> None:
        thoughts = self.settings.thoughts
        self._thought = ThoughtCount(thoughts.form, self.generation.spell) if thoughts else None

    @property
    def read(self) -> float:
        """Return the share of the prompt that was read, from 0 to 1; any thread may call it."""
        return min(self.generation.cached / self.generation.prompt_tokens, 1.0)

    @property
    def readable(self) -> Tokens:
        """The beginning of the text that need not be read where a slot holds it already."""
        g = self.generation
        if g.reads and not self.settings.reuse_prefix:
            return g.tokens[:0]
        return g.tokens[: len(self.logprobs)] if g.scores and g.reads else g.tokens[:-1]

    def score(self, outcome: Outcome) -> None:
        """Send the log-probabilities of tokens of the prompt, once each."""
        turn, g = outcome.turn, self.generation
        start = (g.prompt_tokens if turn.emits else g.cached) - turn.feed
        sent = len(self.logprobs) - start  # read again, as after an error
        tokens = g.tokens[start + 1 : start + 1 + len(outcome.scored)].tolist()
        rows = logprobs(outcome.scored[sent:], tokens[sent:], self.settings.logprobs or 0)
        self._send(Chunk("", (), 0, "", tuple(rows)))

    def publish(self, outcome: Outcome, now: float) -> None:
        """Count a round in the figures, and send its text and tokens to the listener."""
        g = self.generation
        tokens = tuple(g.tokens[-outcome.emitted :].tolist())
        seconds = self.clock.since(now)
        self.clock.note(now, outcome.emitted)
        self.ledger.note(outcome)
        if self._thought:
            self._thought.add(tokens)
        lengths = tuple(g.text.take_lengths())
        self._send(
            Chunk(
                text=g.text.take_text(),
                tokens=tokens,
                accepted=outcome.accepted,
                by=outcome.draft.by,
                logprobs=self._logprobs_of(outcome, tokens),
                drafted=len(outcome.draft),
                lengths=lengths,
                rounds=outcome.rounds,
                seconds=seconds,
                rejected=rejected_of(outcome),
            )
        )

    def _logprobs_of(self, outcome: Outcome, tokens: Sequence[int]) -> tuple[EmittedLogprob, ...]:
        top_count = self.settings.logprobs
        if top_count is None:
            return ()
        if self.settings.sampled_logprobs:
            return tuple(sampled_logprobs(outcome.distributions, tokens, top_count))
        return tuple(logprobs(outcome.logits, tokens, top_count, self.settings.judged))

    def finish(self, reason: FinishReason, speculation: Speculation, now: float) -> None:
        """Report the result to the listener; text held back for a stop text is released first."""
        g = self.generation
        g.text.close()
        if held_back := g.text.take_text():
            self._send(Chunk(held_back, (), 0, ""))
        emitted = tuple(g.tokens[g.prompt_tokens :].tolist())
        self.listener(
            Result(
                text="".join(self.texts),
                tokens=emitted,
                finish_reason=reason,
                seed=self.seed,
                usage=self._usage(len(emitted)),
                timings=self.clock.report(now),
                speculation=speculation,
                logprobs=None if self.settings.logprobs is None else tuple(self.logprobs),
                stopped_by=g.text.stopped_by,
                notices=(
                    *self.notices,
                    *self._name_silent_proposers(speculation),
                    *self._name_near_ties(emitted),
                ),
            )
        )

    def _usage(self, emitted: int) -> Usage:
        g, thought = self.generation, self._thought.tokens if self._thought else 0
        return Usage(g.prompt_tokens, g.reused, emitted, thought, g.sampler.thoughts_cut)

    def _name_silent_proposers(self, speculation: Speculation) -> Iterator[str]:
        """Report that the proposers which were asked for by name did not draft."""
        if self.settings.proposers and not speculation.drafted and speculation.rounds > 1:
            names = ", ".join(self.settings.proposers)
            yield f"{names} drafted nothing: no draft was found, or none would have paid here"

    def _name_near_ties(self, emitted: Sequence[int]) -> Iterator[str]:
        """Report where rounding may turn a greedy text, if log-probabilities were asked for."""
        settings = self.settings
        if not (self.reports_ties and settings.sampling.greedy) or settings.sampled_logprobs:
            return
        rows = enumerate(self.logprobs[-len(emitted) :] if emitted else (), start=1)
        leads = [(row.top[0].logprob - row.top[1].logprob, at) for at, row in rows if row.top[1:]]
        if ties := [lead for lead in leads if lead[0] < NEAR_TIE]:
            lead, at = min(ties)
            others = f", the closest of {len(ties)}" if ties[1:] else ""
            yield (
                f"near-tie at token {at} ({lead:.2g}){others}: in another batch, as with other "
                "drafts, rounding may choose the other token"
            )

    def _send(self, chunk: Chunk) -> None:
        self.texts.append(chunk.text)
        self.logprobs.extend(chunk.logprobs)
        self.listener(chunk)


def rejected_of(outcome: Outcome) -> tuple[int, ...]:
    tokens = outcome.draft.tokens
    return tuple(tokens[outcome.accepted :].tolist()) if len(tokens) > outcome.accepted else ()
