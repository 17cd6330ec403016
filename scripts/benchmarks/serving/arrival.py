"""The effect of a long prompt on running streams when it comes in, and theirs on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import httpx

from benchmarks.serving.asking import StreamedReply, greedy, hear, user
from benchmarks.serving.process import Bench
from benchmarks.serving.table import median, milliseconds, table
from benchmarks.serving.texts import conversation

STREAMS = 4
CONTEXT = 8192
LETTERS = 14_000  # about 4,000 tokens
CALM_SECONDS = 4.0  # of streams alone
HEAD = ("", "between pieces p50", "p95", "p99", "longest", "first token of the prompt, s")


@dataclass(frozen=True, slots=True)
class ArrivalTrial:
    prompt: float  # tokens
    calm: Sequence[float]  # seconds between pieces of the streams
    rough: Sequence[float]  # the same while the prompt was read
    alone: float  # seconds to the prompt's first token with nothing beside it
    among: float


def measure(bench: Bench) -> bool:
    """Print the table; there is no goal."""
    options = ("--slots", str(STREAMS + 1), "--context", str(CONTEXT))
    with bench.ours("ours", *options) as server:
        trials = asyncio.run(try_out(server.client(), bench.rounds))
    print(f"## A prompt of {trials[0].prompt:,.0f} tokens among {STREAMS} streams\n")
    print(table(HEAD, rows(trials)))
    ratio = median([trial.among / trial.alone for trial in trials])
    print(f"\nMilliseconds between pieces. The prompt took {ratio:.2f} times what it takes alone.")
    return True


async def try_out(client: httpx.AsyncClient, rounds: int) -> list[ArrivalTrial]:
    async with client:
        return [await trial(client, number) for number in range(rounds)]


async def trial(client: httpx.AsyncClient, number: int) -> ArrivalTrial:
    alone = await hear(client, greedy(conversation(2 * number, LETTERS), 8))
    streams = [StreamedReply() for _ in range(STREAMS)]
    tasks = [
        asyncio.create_task(stream.listen(client, endless(at))) for at, stream in enumerate(streams)
    ]
    while not all(stream.times for stream in streams):
        await asyncio.sleep(0.01)
    begun = time.perf_counter()
    await asyncio.sleep(CALM_SECONDS)
    among = await hear(client, greedy(conversation(2 * number + 1, LETTERS), 8))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return ArrivalTrial(
        alone.timings["cache_n"] + alone.timings["prompt_n"],
        list(gaps(streams, begun, among.begun)),
        list(gaps(streams, among.begun, among.times[0])),
        alone.first,
        among.first,
    )


def endless(seed: int) -> dict[str, object]:
    """Start a stream that goes on without looping, where drafting would be all too easy."""
    body = greedy([user("Tell me a long story about the sea.")], CONTEXT - 64)
    return body | {"temperature": 0.9, "seed": seed, "ignore_eos": True}


def gaps(streams: Sequence[StreamedReply], begun: float, ended: float) -> Iterator[float]:
    """Select the gaps that ended in a stretch of time."""
    for stream in streams:
        for gap, time_of in zip(stream.gaps, stream.times[1:], strict=True):
            if begun < time_of <= ended:
                yield gap


def rows(trials: Sequence[ArrivalTrial]) -> Iterator[list[str]]:
    sides = {
        "alone": ([trial.calm for trial in trials], [trial.alone for trial in trials]),
        "together": ([trial.rough for trial in trials], [trial.among for trial in trials]),
    }
    for name, (gaps_of_streams, firsts) in sides.items():
        together = [gap for gaps in gaps_of_streams for gap in gaps]
        yield [name, *milliseconds(together, 50, 95, 99, 100), f"{median(firsts):.2f}"]
