"""The choice of how many texts are tried, and how long ones, by how fast a model is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from localspec.apps.prove.refeed import empty_slots
from localspec.base.tokens import Tokens
from localspec.interfaces.backend import Model, Row

GREEDY = 0.6  # of the time, for texts; the rest is for samples
LENGTHS = (64, 32, 16, 8)  # of replies, in tokens: shorter ones where there is time for few prompts
MIN_PROMPTS = 3  # prompts, which are answered at once as well
PROBE = 8  # tokens, one by one, by which the speed is measured
# The time of a proposer with a prompt, in that of its plain text: alone, and beside two others.
# Q4_K_M on a CPU, where a batch of eight tokens costs four to six times one, and one is kept.
PROPOSER_TIME = 3.8

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    prompts: int
    tokens: int  # of a reply


@dataclass(frozen=True, slots=True)
class TextSpeed:
    """Seconds that a plain text takes."""

    reading: float  # its prompt, and the first token of its reply
    a_token: float  # of the rest of it

    @classmethod
    def measure(
        cls, model: Model, prompt: Tokens, clock: Callable[[], float] = time.perf_counter
    ) -> TextSpeed:
        """Measure by a prompt, of which the last tokens are read one by one."""
        empty_slots(model)
        split = max(len(prompt) - PROBE, 1)
        begun = clock()
        for first in range(0, split, model.batch):
            model.forward([Row(0, prompt[first : min(first + model.batch, split)])])
        read = clock()
        for at in range(split, len(prompt)):
            model.forward([Row(0, prompt[at : at + 1])])
        speed = cls(read - begun, (clock() - read) / max(len(prompt) - split, 1))
        empty_slots(model)
        return speed

    def effort(
        self, prompts: int, proposers: int, seconds: float, tokens: int | None = None
    ) -> Effort:
        """Choose how many of the prompts there is time for, and the length of their replies."""
        count = 0.0
        for length in (tokens,) if tokens else LENGTHS:
            text = self.reading + length * self.a_token
            count = seconds / (text * (1 + PROPOSER_TIME * proposers))
            if count >= MIN_PROMPTS:
                break
        # Where even the least takes too long, what is compared ends by the clock.
        least = MIN_PROMPTS if MIN_PROMPTS * text < seconds / 2 else 1
        return Effort(min(prompts, max(least, int(min(count, prompts)))), length)


def within(
    items: Iterable[T],
    seconds: float,
    least: int,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[T]:
    """Pass items through until the time is over; so many at least."""
    end = clock() + seconds
    for count, item in enumerate(items, 1):
        yield item
        if count >= least and clock() > end:
            return
