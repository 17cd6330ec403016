"""The counts of drafts that a server gives with a reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

Position = tuple[int, int]  # drafts that came so far with a token there, at most; accepted there


@dataclass(frozen=True, slots=True)
class Drafts:
    """Drafted and accepted tokens of a reply, and by position as far as the server counts them."""

    drafted: int = 0
    accepted: int = 0
    positions: tuple[Position, ...] = ()


def of_timings(timings: Mapping[str, object]) -> Drafts:
    """Read the `timings` of a reply; LocalSpec adds counts by proposer and position."""
    guesses = timings.get("guesses") or {}
    assert isinstance(guesses, Mapping)
    counts = [_tried(list(map(tuple, positions))) for positions in guesses.values()]
    return Drafts(
        _number(timings.get("draft_n")), _number(timings.get("draft_n_accepted")), summed(counts)
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _tried(counts: Sequence[Position]) -> list[Position]:
    """Bound the drafts that reached a position by those that were accepted before it."""
    before = [counts[0][0], *(accepted for _, accepted in counts)] if counts else []
    return [
        (min(had, came), accepted)
        for (had, accepted), came in zip(counts, before[:-1], strict=True)
    ]


def summed(counts: Iterable[Sequence[Position]]) -> tuple[Position, ...]:
    """Add counts position by position."""
    columns = zip_longest(*counts, fillvalue=(0, 0))
    return tuple((sum(a for a, _ in column), sum(b for _, b in column)) for column in columns)


def conditional(positions: Sequence[Position]) -> tuple[float, ...]:
    """Return the share accepted at each position where all before it was accepted, at least."""
    return tuple(accepted / tried if tried else 0.0 for tried, accepted in positions)
