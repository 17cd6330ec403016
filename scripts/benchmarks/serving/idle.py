"""What long conversations that lie idle in other slots cost one that goes on, and their return."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from itertools import product

import httpx

from benchmarks.serving.asking import Body, apart, greedy, hear
from benchmarks.serving.process import Bench
from benchmarks.serving.table import median, table
from benchmarks.serving.texts import conversation
from localspec.bench.prompts import built_in

SLOTS = 4
CONTEXT = 2048
LETTERS = 4_000  # about 1,200 tokens
SHORT = 400  # letters
LENGTH = 96
HELD, ASIDE = "held by their slots", "put aside"
RAM: Mapping[str, str] = {HELD: "0MiB", ASIDE: "8GiB"}
WAYS: Mapping[str, Body] = {"no guesses": {"localspec": {"plain": True}}, "guesses": {}}
HEAD = ("idle conversations", *(f"{way}, tokens/s" for way in WAYS), "first token of a return, s")


@dataclass(frozen=True, slots=True)
class Trial:
    """One server's replies by the way they were made, and how soon a conversation came back."""

    rates: Mapping[str, list[float]] = field(default_factory=lambda: {way: [] for way in WAYS})
    returns: list[float] = field(default_factory=list)


def measure(bench: Bench) -> bool:
    """Print the table; False if it is slower where idle conversations are put aside."""
    options = ("--slots", str(SLOTS), "--context", str(CONTEXT))
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(bench.ours(name[:4], *options, "--cache-ram", ram)).client()
            for name, ram in RAM.items()
        }
        trials = asyncio.run(ask(clients, bench.rounds))
    print(f"## {SLOTS - 1} conversations that lie idle\n")
    print(table(HEAD, rows(trials)))
    return all(
        median(trials[ASIDE].rates[way]) >= 0.95 * median(trials[HELD].rates[way]) for way in WAYS
    )


async def ask(clients: Mapping[str, httpx.AsyncClient], rounds: int) -> dict[str, Trial]:
    """The same short questions of both, in turns; then the first conversations again."""
    trials = {name: Trial() for name in clients}
    prompts = [each.messages for each in built_in() if len(str(each.messages)) < SHORT][:rounds]
    async with AsyncExitStack() as stack:
        for client in clients.values():
            await stack.enter_async_context(client)
            for number in range(SLOTS - 1):
                await hear(client, greedy(conversation(number, LETTERS), 2))
        for (at, messages), (way, more) in product(enumerate(prompts), WAYS.items()):
            body = greedy([apart(100 * len(more) + at), *messages], LENGTH) | {"ignore_eos": True}
            for name in sorted(clients, reverse=bool(at % 2)):
                heard = await hear(clients[name], {**body, **more})
                trials[name].rates[way].append(heard.timings["predicted_per_second"])
        for name, client in clients.items():
            heard = await hear(client, greedy(conversation(0, LETTERS), 2))
            trials[name].returns.append(heard.first)
    return trials


def rows(trials: Mapping[str, Trial]) -> Iterator[Sequence[str]]:
    for name, trial in trials.items():
        rates = [f"{median(trial.rates[way]):.1f}" for way in WAYS]
        yield [name, *rates, f"{median(trial.returns):.2f}"]
