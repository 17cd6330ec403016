"""The plan of a comparison: settings, and the sections that servers take in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.comparison.questions import Session, by_category, long_prompts, mixed
from benchmarks.comparison.task_sets import PeerPrompt
from localspec.base.errors import UsageError

LEAST_CONTEXT = 2048  # tokens, prompt and reply together
LEAST_TOKEN_LETTERS = 3  # of a token in short prompts: of code and of languages without spaces
LONG_PROMPTS = 2  # a round
EACH = 2  # prompts that every stream asks one after the other
LEAST_PROMPTS = 40  # for several streams: the 95th percentile of 16 is about the longest time

Section = Session  # what a server is asked before it is the next one's turn
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, which is the same for all servers while they are compared."""

    name: str
    streams: int
    temperature: float
    context: int
    sections: Sequence[Section]
    depth: int = 0  # tokens of each prompt, where that is what is compared


@dataclass(frozen=True, slots=True)
class ComparisonWish:
    """The amount to measure."""

    streams: Sequence[int] = (1, 2, 4, 8, 16)
    temperatures: Sequence[float] = (0.0, 1.0)
    depths: Sequence[int] = (4000,)
    per_category: int = 4
    max_tokens: int = 128
    least_prompts: int = LEAST_PROMPTS
    seed: int = 11


def settings(prompts: Sequence[PeerPrompt], wish: ComparisonWish) -> Iterator[Setting]:
    for temperature in wish.temperatures:
        at = f"T={temperature:g}"
        for streams in wish.streams:
            name = f"{streams} streams, {at}" if streams > 1 else f"one stream, {at}"
            parts = sections(prompts, streams, wish)
            yield Setting(name, streams, temperature, context(parts, wish.max_tokens), parts)
    for depth in wish.depths:
        parts = [[one] for one in long_prompts(prompts, depth, LONG_PROMPTS, wish.seed)]
        name = f"one stream, prompts of {depth:,} tokens, T=0"
        yield Setting(name, 1, 0.0, context(parts, wish.max_tokens), parts, depth)


def context(parts: Sequence[Section], max_tokens: int) -> int:
    """Round what the longest prompt and reply may need up to whole thousands."""
    longest = max(len("".join((*p.history, p.prompt))) for part in parts for p in part)
    needed = longest / LEAST_TOKEN_LETTERS + 1.5 * max_tokens + 64
    return max(LEAST_CONTEXT, -(-int(needed) // 1024) * 1024)


def sections(prompts: Sequence[PeerPrompt], streams: int, wish: ComparisonWish) -> list[Section]:
    """Return single sessions for one stream, else twice as many prompts as there are streams."""
    if streams == 1:
        return by_category(prompts, wish.per_category, wish.seed)
    size = EACH * streams
    chosen = mixed(prompts, max(1, wish.least_prompts // size) * size, wish.seed + streams)
    if len(chosen) < streams:
        raise UsageError(f"{streams} streams need as many different prompts, {len(chosen)} exist")
    whole = len(chosen) - len(chosen) % size if len(chosen) > size else len(chosen)
    return [chosen[at : at + size] for at in range(0, whole, size)]


def rotated(sides: Sequence[T], turn: int) -> list[T]:
    """Return all of them, starting with another one each turn."""
    first = turn % len(sides)
    return [*sides[first:], *sides[:first]]
