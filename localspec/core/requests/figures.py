"""Figures of one reply: drafted and accepted tokens, times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from localspec.core.decoding.turn import Outcome

TARGET = "target"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a request.

    prompt_tokens: of the prompt
    cached_tokens: of the prompt, taken from the prefix cache
    completion_tokens: of the reply
    reasoning_tokens: of these, in a chat, the thoughts before the answer
    thoughts_cut: thoughts that were ended because their budget was spent
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0
    thoughts_cut: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds. A token that came with others in a round counts its share of the round.

    queued: until a slot was free
    first_token: until the first one, from submission, queueing included
    total: until the end
    between_tokens_p50: the median between two tokens
    between_tokens_p95: 95% are shorter
    between_tokens_p99: 99% are shorter
    tokens_per_second: after the first round
    gaps: all times between two tokens, the shortest first
    """

    queued: float
    first_token: float | None
    total: float
    between_tokens_p50: float | None
    between_tokens_p95: float | None
    between_tokens_p99: float | None
    tokens_per_second: float | None
    gaps: tuple[float, ...] = field(default=(), repr=False)


class PositionCounts(NamedTuple):
    """Draft tokens at one position, and how many of them were accepted."""

    drafted: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Speculation:
    """Counts what speculation did for a reply.

    rounds: forwards of the target that emitted something
    drafted: tokens that were drafted
    accepted: those of them that the target accepted
    taken_back: those of them that it had to forget
    tokens_per_round: of the reply
    acceptance_rate: accepted of drafted
    acceptance_by_position: the rate of the first tokens of drafts, the second ones, and so on
    tokens_by_source: tokens of the reply by "target" or the proposer that drafted them
    positions: counts of drafted and accepted tokens by proposer and position
    depths: rounds by how many tokens were drafted
    speedup: over plain decoding, estimated where costs are measured and plain rounds were seen
    wasted_seconds: what drafting and verifying the others took, estimated where costs are measured
    """

    rounds: int
    drafted: int
    accepted: int
    taken_back: int
    tokens_per_round: float
    acceptance_rate: float | None
    acceptance_by_position: tuple[float, ...]
    tokens_by_source: Mapping[str, int]
    positions: Mapping[str, tuple[PositionCounts, ...]]
    depths: Mapping[int, int]
    speedup: float | None = None
    wasted_seconds: float | None = None


@dataclass(slots=True)
class Clockwork:
    """The times at which one request went on."""

    submitted: float
    started: float | None = None
    first: float | None = None
    last: float | None = None
    gaps: list[tuple[float, int]] = field(default_factory=list)  # seconds, tokens

    def since(self, now: float) -> float:
        """Return the time since the round before; of the first, since there was a slot."""
        before = self.started if self.last is None else self.last
        return 0.0 if before is None else now - before

    def note(self, now: float, tokens: int) -> None:
        if self.first is None or self.last is None:
            self.first = now
        else:
            self.gaps.append((now - self.last, tokens))
        self.last = now

    def report(self, now: float) -> Timings:
        shares = sorted(gap / tokens for gap, tokens in self.gaps for _ in range(tokens))
        seconds = sum(gap for gap, _ in self.gaps)
        return Timings(
            queued=(self.started if self.started is not None else now) - self.submitted,
            first_token=self.first - self.submitted if self.first is not None else None,
            total=now - self.submitted,
            between_tokens_p50=quantile(shares, 0.5),
            between_tokens_p95=quantile(shares, 0.95),
            between_tokens_p99=quantile(shares, 0.99),
            tokens_per_second=len(shares) / seconds if seconds else None,
            gaps=tuple(shares),
        )


def quantile(ascending: Sequence[float], share: float) -> float | None:
    """Return a quantile, between two values by their distance; numpy needs 0.2 ms to begin."""
    if not ascending:
        return None
    low, between = divmod(share * (len(ascending) - 1), 1)
    below, above = ascending[int(low)], ascending[min(int(low) + 1, len(ascending) - 1)]
    return below + (above - below) * between


@dataclass(slots=True)
class Ledger:
    """Counts of the drafted and accepted tokens of one request."""

    drafts: Counter[tuple[str, int, int]] = field(default_factory=Counter)  # drafted, accepted
    sources: Counter[str] = field(default_factory=Counter)
    wasted_seconds: float = 0.0

    def note(self, outcome: Outcome) -> None:
        self.wasted_seconds += outcome.wasted_seconds
        self.drafts[outcome.draft.by, len(outcome.draft), outcome.accepted] += outcome.rounds
        if outcome.accepted:
            self.sources[outcome.draft.by] += outcome.accepted
        if outcome.emitted > outcome.accepted:
            self.sources[TARGET] += outcome.emitted - outcome.accepted

    def report(self) -> Speculation:
        rounds = self.drafts.total()
        drafted = sum(count * size for (_, size, _), count in self.drafts.items())
        accepted = sum(count * right for (_, _, right), count in self.drafts.items())
        depths: Counter[int] = Counter()
        for (_, size, _), count in self.drafts.items():
            depths[size] += count
        proposers = {by for by, size, _ in self.drafts if size}
        return Speculation(
            rounds=rounds,
            drafted=drafted,
            accepted=accepted,
            taken_back=drafted - accepted,
            tokens_per_round=self.sources.total() / rounds if rounds else 0.0,
            acceptance_rate=accepted / drafted if drafted else None,
            acceptance_by_position=tuple(
                position.accepted / position.drafted for position in self._positions()
            ),
            tokens_by_source=dict(self.sources),
            positions={by: tuple(self._positions(by)) for by in sorted(proposers)},
            depths=dict(sorted(depths.items())),
        )

    def _positions(self, by: str | None = None) -> Iterator[PositionCounts]:
        """Count draft tokens by position, of one proposer or of all."""
        drafted, accepted = Counter[int](), Counter[int]()  # drafts that end there
        for (proposer, size, right), count in self.drafts.items():
            if size and by in (None, proposer):
                drafted[size] += count
                accepted[right] += count
        count, right = drafted.total(), accepted.total()
        for ended in range(max(drafted, default=0)):
            count, right = count - drafted[ended], right - accepted[ended]
            yield PositionCounts(count, right)
