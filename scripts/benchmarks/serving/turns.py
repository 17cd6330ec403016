"""The time to the first token in the second turn of a long conversation, beside the first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack

import httpx

from benchmarks.serving.asking import NEUTRAL, StreamedReply, greedy, hear, user
from benchmarks.serving.process import Bench
from benchmarks.serving.table import median, table
from benchmarks.serving.texts import conversation

CONTEXT = 8192
LETTERS = 21_000  # about 6,000 tokens
LENGTH = 32
GOAL = 20.0  # times sooner
HEAD = ("server", "first turn", "second turn", "times sooner")
THEIRS, OURS = "llama_cpp.server", "LocalSpec"

Pair = tuple[StreamedReply, StreamedReply]


def measure(bench: Bench) -> bool:
    """Print the table; False if LocalSpec's second turn was not so much sooner."""
    with ExitStack() as stack:
        addresses = {
            THEIRS: stack.enter_context(bench.theirs(CONTEXT)),
            OURS: stack.enter_context(
                bench.ours("ours", "--slots", "2", "--context", str(CONTEXT))
            ),
        }
        clients = {name: server.client() for name, server in addresses.items()}
        pairs = asyncio.run(ask(clients, bench.rounds))
    sizes = [f"{prompt(turn):,.0f}" for turn in pairs[OURS][0]]
    print(f"## Second turn\n\nPrompts of {' and then '.join(sizes)} tokens, seconds.\n")
    print(table(HEAD, [row(name, turn_pairs) for name, turn_pairs in pairs.items()]))
    return sooner(pairs[OURS]) >= GOAL


async def ask(clients: Mapping[str, httpx.AsyncClient], rounds: int) -> dict[str, list[Pair]]:
    pairs_by_server: dict[str, list[Pair]] = {name: [] for name in clients}
    async with AsyncExitStack() as stack:
        for client in clients.values():
            await stack.enter_async_context(client)
        for number in range(rounds):
            for name in sorted(clients, reverse=bool(number % 2)):
                pairs_by_server[name].append(await two_turns(clients[name], number, name == THEIRS))
    return pairs_by_server


async def two_turns(client: httpx.AsyncClient, number: int, theirs: bool) -> Pair:
    more = NEUTRAL if theirs else {}
    messages = conversation(number, LETTERS)
    first = await hear(client, {**greedy(messages, LENGTH), **more})
    messages += [{"role": "assistant", "content": first.text}, user("And another one?")]
    return first, await hear(client, {**greedy(messages, LENGTH), **more})


def prompt(heard: StreamedReply) -> float:
    """Count the tokens of the prompt."""
    return heard.timings["cache_n"] + heard.timings["prompt_n"]


def row(name: str, pairs: Sequence[Pair]) -> list[str]:
    firsts, seconds = zip(*pairs, strict=True)
    waits = [f"{median([reply.first for reply in turn]):.2f}" for turn in (firsts, seconds)]
    return [name, *waits, f"{sooner(pairs):.1f}"]


def sooner(pairs: Sequence[Pair]) -> float:
    return median([first.first / second.first for first, second in pairs])
