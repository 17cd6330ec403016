"""The counts of drafts that a server gives with a reply, or writes into its log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path

LOG_SECONDS = 2.0  # until the last line of a reply is in the log, at most
LOGGED = re.compile(  # llama-server at verbosity 4, after each reply with drafts
    r"draft acceptance = .*?\(\s*(\d+) accepted /\s*(\d+) generated\), mean len =\s*([\d.]+)"
    r".*?acc per pos = \(([^)]*)\)",
    re.DOTALL,
)

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


def logged(log: str) -> list[Drafts]:
    """Read what llama-server wrote of each reply with drafts, in the order of their ends."""
    return [_entry(*match.groups()) for match in LOGGED.finditer(log)]


def _entry(accepted: str, drafted: str, mean: str, rates: str) -> Drafts:
    shares = [float(rate) for rate in rates.split(",") if rate.strip()]
    longer = float(mean) - 1  # accepted tokens of a draft
    drafts = (
        round(int(accepted) / longer) if longer > 0 else -(-int(drafted) // max(len(shares), 1))
    )
    reached = [drafts, *(round(share * drafts) for share in shares)]
    positions = tuple(pair for pair in pairwise(reached) if pair[0])
    return Drafts(int(drafted), int(accepted), positions)


@dataclass(frozen=True, slots=True)
class Log:
    """The part of a server's log that comes from now on."""

    path: Path
    begin: int

    @classmethod
    def from_now(cls, path: Path) -> Log:
        return cls(path, path.stat().st_size)

    def entries(self, count: int) -> list[Drafts]:
        """Wait until so many replies are in it: a thread of llama-server writes it."""
        end = time.monotonic() + LOG_SECONDS
        while True:
            with self.path.open("rb") as file:
                file.seek(self.begin)
                entries = logged(file.read().decode(errors="replace"))
            if len(entries) >= count or time.monotonic() > end:
                return entries
            time.sleep(0.01)


def completed(drafts: Sequence[Drafts], log: Log) -> list[Drafts]:
    """Add the positions from a log to drafts without them.

    Replies that ran at once may get one another's; their sum is right.
    """
    lacking = sum(1 for counts in drafts if counts.drafted and not counts.positions)
    entries = iter(log.entries(lacking) if lacking else ())
    return [
        replace(counts, positions=next(entries, counts).positions)
        if counts.drafted and not counts.positions
        else counts
        for counts in drafts
    ]


def conditional(positions: Sequence[Position]) -> tuple[float, ...]:
    """Return the share accepted at each position where all before it was accepted, at least."""
    return tuple(accepted / tried if tried else 0.0 for tried, accepted in positions)
