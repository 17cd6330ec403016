"""What speculation did for one reply, and how long everything took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from localspec.round import Outcome

TARGET = "target"


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    cached_tokens: int  # of the prompt, that did not have to be read again
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. A token that came with others in a round counts its share of the round."""

    queued: float
    first_token: float | None  # from submission, queueing included
    total: float
    between_tokens_p50: float | None
    between_tokens_p95: float | None
    tokens_per_second: float | None  # after the first round


@dataclass(frozen=True, slots=True)
class Speculation:
    rounds: int  # forwards of the target that emitted something
    drafted: int
    accepted: int
    taken_back: int  # drafted tokens the target had to forget
    mean_accepted: float  # drafted tokens accepted per round
    acceptance_rate: float | None  # accepted of drafted
    acceptance_by_position: tuple[float, ...]
    tokens_by_source: Mapping[str, int]


@dataclass(slots=True)
class Clockwork:
    """When things happened to one request."""

    submitted: float
    started: float | None = None
    first: float | None = None
    last: float | None = None
    gaps: list[tuple[float, int]] = field(default_factory=list)  # seconds, tokens

    def note(self, now: float, tokens: int) -> None:
        if self.first is None or self.last is None:
            self.first = now
        else:
            self.gaps.append((now - self.last, tokens))
        self.last = now

    def report(self, now: float) -> Timings:
        shares = [gap / tokens for gap, tokens in self.gaps for _ in range(tokens)]
        seconds = sum(gap for gap, _ in self.gaps)
        return Timings(
            queued=(self.started if self.started is not None else now) - self.submitted,
            first_token=self.first - self.submitted if self.first is not None else None,
            total=now - self.submitted,
            between_tokens_p50=float(np.percentile(shares, 50)) if shares else None,
            between_tokens_p95=float(np.percentile(shares, 95)) if shares else None,
            tokens_per_second=len(shares) / seconds if seconds else None,
        )


@dataclass(slots=True)
class Ledger:
    """The account of drafted tokens of one request."""

    rounds: int = 0
    taken_back: int = 0
    drafted_at: Counter[int] = field(default_factory=Counter)
    accepted_at: Counter[int] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)

    def note(self, outcome: Outcome) -> None:
        self.rounds += 1
        drafted, accepted = len(outcome.draft), outcome.accepted
        self.drafted_at.update(range(drafted))
        self.accepted_at.update(range(accepted))
        self.taken_back += drafted - accepted
        if accepted:
            self.sources[outcome.draft.by] += accepted
        if outcome.emitted > accepted:
            self.sources[TARGET] += outcome.emitted - accepted

    def report(self) -> Speculation:
        drafted, accepted = self.drafted_at.total(), self.accepted_at.total()
        return Speculation(
            rounds=self.rounds,
            drafted=drafted,
            accepted=accepted,
            taken_back=self.taken_back,
            mean_accepted=accepted / self.rounds if self.rounds else 0.0,
            acceptance_rate=accepted / drafted if drafted else None,
            acceptance_by_position=tuple(
                self.accepted_at[at] / count for at, count in sorted(self.drafted_at.items())
            ),
            tokens_by_source=dict(self.sources),
        )
