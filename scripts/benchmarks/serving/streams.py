"""Several streams at once, against the server that comes with llama-cpp-python.

Every round begins with servers that were just started, and no prompt is sent twice to one: a server
that has generated a reply would draft it again, and its prompt would come from the prefix cache.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from dataclasses import dataclass
from itertools import chain, islice, product

import httpx

from benchmarks.serving.asking import NEUTRAL, Body, StreamedReply, apart, greedy, hear, user
from benchmarks.serving.process import Bench, ServerProcess
from benchmarks.serving.table import median, milliseconds, table
from localspec.bench.prompts import built_in

LEVELS = (1, 2, 4, 8, 16)
CONTEXT = 2048
LENGTH = 96  # most tokens of a reply
SHOWN = 12  # differences of texts
SLOTS = ("--slots", str(max(LEVELS)), "--context", str(CONTEXT))
THEIRS, OURS, PLAIN = "llama_cpp.server", "LocalSpec", "LocalSpec, no drafts"
HEAD = (
    "streams",
    "server",
    "tokens/s",
    "beside the other",
    "first token p50",
    "p95",
    "between pieces p50",
    "p95",
    "same texts",
)


@dataclass(frozen=True, slots=True)
class StreamVolley:
    """Requests made at once, all answered."""

    heard: Sequence[StreamedReply]
    seconds: float
    tokens: int

    @property
    def rate(self) -> float:
        return self.tokens / self.seconds


Turn = Mapping[tuple[str, int], StreamVolley]  # by server and number of streams


def measure(bench: Bench) -> bool:
    """Print the table; False if LocalSpec was slower than the other at some number of streams."""
    turns: list[Turn] = []
    for number in range(bench.rounds):
        with ExitStack() as stack:
            made = servers(bench).items()
            running = {name: stack.enter_context(server) for name, server in made}
            turns.append(asyncio.run(turn(number, running)))
    print("## Streams\n")
    print(table(HEAD, rows(turns)))
    print("\nMilliseconds. The first texts that differ:\n")
    print("\n".join(islice(differences(turns), SHOWN)) or "none")
    return all(beside(turns, OURS, level) >= 1 for level in LEVELS)


def servers(bench: Bench) -> dict[str, AbstractContextManager[ServerProcess]]:
    return {
        THEIRS: bench.theirs(CONTEXT),
        OURS: bench.ours("ours", *SLOTS),
        PLAIN: bench.ours("plain", *SLOTS, "--proposer", "none"),
    }


async def turn(number: int, running: Mapping[str, ServerProcess]) -> Turn:
    """Ask all servers the same, one after another, each time another one first."""
    prompts = built_in()
    random.Random(number).shuffle(prompts)
    names, volleys = list(running), {}
    async with AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(server.client())
            for name, server in running.items()
        }
        for name in names:
            await volley(name, clients, [greedy([user("Say hello.")], 8)])
        for at, level in enumerate(LEVELS):
            asked = [prompts.pop().messages for _ in range(level)]
            bodies = [greedy([apart(at), *messages], LENGTH) for messages in asked]
            first = (number + at) % len(names)
            for name in names[first:] + names[:first]:
                volleys[name, level] = await volley(name, clients, bodies)
    return volleys


async def volley(
    name: str, clients: Mapping[str, httpx.AsyncClient], bodies: Sequence[Body]
) -> StreamVolley:
    more = NEUTRAL if name == THEIRS else {}
    begun = time.perf_counter()
    heard = await asyncio.gather(*(hear(clients[name], {**body, **more}) for body in bodies))
    seconds = time.perf_counter() - begun
    tokens = [await count(clients[THEIRS], reply.text) for reply in heard]
    return StreamVolley(heard, seconds, sum(tokens))


async def count(client: httpx.AsyncClient, text: str) -> int:
    """Count the tokens of a text, by the same tokenizer for all."""
    answer = await client.post("/extras/tokenize/count", json={"input": text})
    tokens: int = answer.raise_for_status().json()["count"]
    return tokens


def rows(turns: Sequence[Turn]) -> Iterator[Sequence[str]]:
    for level in LEVELS:
        for name in (THEIRS, OURS, PLAIN):
            volleys = [turn[name, level] for turn in turns]
            heard = list(chain.from_iterable(volley.heard for volley in volleys))
            other = chain.from_iterable(turn[THEIRS, level].heard for turn in turns)
            same = sum(a.text == b.text for a, b in zip(heard, other, strict=True))
            gaps = list(chain.from_iterable(reply.gaps for reply in heard))
            yield (
                str(level),
                name,
                f"{median([volley.rate for volley in volleys]):.1f}",
                f"{beside(turns, name, level):.2f}",
                *milliseconds([reply.first for reply in heard], 50, 95),
                *milliseconds(gaps, 50, 95),
                f"{same} of {len(heard)}",
            )


def beside(turns: Sequence[Turn], name: str, level: int) -> float:
    """Compute the throughput as a multiple of the other server's, in the same round."""
    return median([turn[name, level].rate / turn[THEIRS, level].rate for turn in turns])


def differences(turns: Sequence[Turn]) -> Iterator[str]:
    """Find where texts part from the other server's."""
    for number, turn in enumerate(turns, 1):
        for name, level in product((OURS, PLAIN), LEVELS):
            pairs = zip(turn[THEIRS, level].heard, turn[name, level].heard, strict=True)
            for theirs, ours in ((a.text, b.text) for a, b in pairs if a.text != b.text):
                at = parting(theirs, ours)
                parts = f"{theirs[at : at + 30]!r} and {ours[at : at + 30]!r}"
                yield f"* round {number}, {level} streams, {name}, after {at} letters: {parts}"


def parting(a: str, b: str) -> int:
    """Count the leading letters that two texts share."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(a), len(b)))
