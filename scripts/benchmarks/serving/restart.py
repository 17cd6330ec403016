"""Long prompts after a restart of the server, with the prefix cache kept on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import httpx

from benchmarks.serving.asking import StreamedReply, greedy, hear
from benchmarks.serving.process import Bench
from benchmarks.serving.table import median
from benchmarks.serving.texts import conversation

CONTEXT = 8192
LETTERS = 21_000  # about 6,000 tokens
LENGTH = 32


def measure(bench: Bench) -> bool:
    """Print what it brings; False if a reply differs afterwards."""
    kept = str(bench.folder / "kept")
    options = ("--slots", "2", "--context", str(CONTEXT), "--cache-dir", kept)
    heard: list[Sequence[StreamedReply]] = []
    for name in ("before", "after"):
        with bench.ours(name, *options) as server:
            heard.append(asyncio.run(ask(server.client(), bench.rounds)))
    pairs = list(zip(*heard, strict=True))
    waits = [median([reply.first for reply in side]) for side in heard]
    ratio = median([before.first / after.first for before, after in pairs])
    held = median([after.timings["cache_n"] for _, after in pairs])
    same = sum(int(before.text == after.text) for before, after in pairs)
    print("## Restart\n")
    print(f"First tokens after {waits[0]:.2f} s, and after a restart after {waits[1]:.2f} s:")
    print(f"{ratio:.1f} times sooner, {held:,.0f} tokens held (medians of {bench.rounds}).")
    print(f"{same} of {bench.rounds} replies the same.")
    return same == bench.rounds


async def ask(client: httpx.AsyncClient, rounds: int) -> list[StreamedReply]:
    async with client:
        return [
            await hear(client, greedy(conversation(number, LETTERS), LENGTH))
            for number in range(rounds)
        ]
