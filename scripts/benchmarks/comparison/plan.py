"""The plan of a comparison: settings, and the sections that servers take in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchmarks.comparison.questions import PeerPrompt, by_category, long_prompts, mixed

SHORT_CONTEXT, LONG_CONTEXT = 2048, 8192
LONG_PROMPTS = 2  # a round
EACH = 2  # prompts that every stream asks one after the other
LEAST_PROMPTS = 40  # for several streams: the 95th percentile of 16 is about the longest time

Section = Sequence[PeerPrompt]  # what a server is asked before it is the next one's turn
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, which is the same for all servers while they are compared."""

    name: str
    streams: int
    temperature: float
    context: int
    sections: Sequence[Section]


@dataclass(frozen=True, slots=True)
class ComparisonWish:
    """The amount to measure."""

    streams: Sequence[int] = (1, 2, 4, 8, 16)
    temperatures: Sequence[float] = (0.0, 1.0)
    per_category: int = 4
    long: bool = True
    least_prompts: int = LEAST_PROMPTS
    seed: int = 11


def settings(questions: Sequence[PeerPrompt], wish: ComparisonWish) -> Iterator[Setting]:
    for temperature in wish.temperatures:
        at = f"T={temperature:g}"
        for streams in wish.streams:
            name = f"{streams} streams, {at}" if streams > 1 else f"one stream, {at}"
            parts = sections(questions, streams, wish)
            yield Setting(name, streams, temperature, SHORT_CONTEXT, parts)
    if wish.long:
        prompts = [[prompt] for prompt in long_prompts(questions, LONG_PROMPTS, wish.seed)]
        yield Setting("one stream, long prompts, T=0", 1, 0.0, LONG_CONTEXT, prompts)


def sections(questions: Sequence[PeerPrompt], streams: int, wish: ComparisonWish) -> list[Section]:
    """Return single prompts for one stream, else twice as many prompts as there are streams."""
    if streams == 1:
        return [[prompt] for prompt in by_category(questions, wish.per_category, wish.seed)]
    size = EACH * streams
    count = max(1, wish.least_prompts // size)
    prompts = mixed(questions, count * size, wish.seed + streams)
    return [prompts[at : at + size] for at in range(0, len(prompts), size)]


def rotated(sides: Sequence[T], turn: int) -> list[T]:
    """Return all of them, starting with another one each turn."""
    first = turn % len(sides)
    return [*sides[first:], *sides[:first]]
