"""A soak from its first request to its last, and the conditions at its end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, fields

import httpx
import numpy as np
import psutil

from localspec.console.columns import columns
from soaking import polite, rude
from soaking.caller import Busy, Caller
from soaking.load import RequestTally, load
from soaking.polite import ask_alone
from soaking.reply import Wrong
from soaking.watch import ServerSample, ServerWatch

MINUTE = 60.0
GROWTH = 0.03  # of resident memory but for texts that are kept
FULL = 4  # requests at once that fill the slots
SPARE = 2  # threads or descriptors more than before


@dataclass(slots=True)
class Soak:
    """A soak; threads and descriptors are compared at rest, memory under load."""

    watch: ServerWatch
    tally: RequestTally = field(init=False)
    samples: Sequence[ServerSample] = ()  # under load, after the warm-up

    def __post_init__(self) -> None:
        self.tally = RequestTally(self.watch.fault)

    async def run(self, seconds: float) -> list[str]:
        """Run the phases; return the faults."""
        try:
            faults = await self._run(seconds)
        except (httpx.HTTPError, psutil.Error, Busy, Wrong) as error:
            faults = [f"it does not answer any more: {type(error).__name__} {error}"]
        return [*self.watch.faults, *faults]

    async def _run(self, seconds: float) -> list[str]:
        warm = min(MINUTE, seconds / 4)
        looking = asyncio.create_task(self.watch.keep_looking(min(10.0, seconds / 12)))
        reply = await self._ask()
        await self._fill()
        before = await self._phase(warm, seed=1)
        begun = len(self.watch.samples)
        after = await self._phase(seconds - warm, seed=2)
        self.samples = self.watch.samples[begun:]
        again = await self._ask()
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking
        if again != reply:
            self.watch.fault(f"at first it said {reply!r} and at last {again!r}")
        window = min(MINUTE, (seconds - warm) / 3)
        return [*growth_faults(before, after), *memory_faults(self.samples, window)]

    async def _fill(self) -> None:
        """Fill every slot with as much as it can hold, so that all memory was touched once."""
        async with self.watch.server.client() as client:
            callers = [Caller(client, random.Random(number)) for number in range(FULL)]
            for kind in (polite.largest, polite.schema, rude.too_long):
                await asyncio.gather(
                    *(self.tally.note(kind.__name__, kind, caller) for caller in callers)
                )

    async def _ask(self) -> str:
        """Ask for a reply to a text that is always asked alone."""
        async with self.watch.server.client() as client:
            return await ask_alone(Caller(client, random.Random(0)))

    async def _phase(self, seconds: float, seed: int) -> ServerSample:
        async with self.watch.server.client() as client:
            await load(client, seconds, self.tally, seed)
        quiet = await self.watch.quiet()
        ended = {f"{name}, {how}": count for (name, how), count in self.tally.ended.items()}
        self.watch.write(quiet=asdict(quiet), ended=ended)
        return quiet

    def report(self) -> str:
        return f"{self.tally.text()}\n\n{series(self.samples)}"


def growth_faults(before: ServerSample, after: ServerSample) -> Iterator[str]:
    if not after.idle:
        yield f"no client asks, yet {after.busy} slots are busy and {after.queue} requests wait"
    for name in ("threads", "descriptors", "children"):
        then, now = (asdict(counts)[name] for counts in (before, after))
        if now > then + SPARE:
            yield f"{name} went from {then} to {now}"


def memory_faults(samples: Sequence[ServerSample], window: float) -> Iterator[str]:
    if not samples:
        yield "nothing was seen of its memory"
        return
    begin, end = samples[0].seconds, samples[-1].seconds
    then = float(np.median([sample.mib for sample in samples if sample.seconds <= begin + window]))
    now = float(np.median([sample.mib for sample in samples if sample.seconds >= end - window]))
    if now > then * (1 + GROWTH):
        yield f"memory went from {then:,.1f} to {now:,.1f} MiB ({now / then - 1:+.1%})"


def series(samples: Sequence[ServerSample]) -> str:
    names = [field.name for field in fields(ServerSample)]
    rows = ([f"{value:,}" for value in astuple(sample)] for sample in samples)
    return columns([names, *rows], numbers=True)
