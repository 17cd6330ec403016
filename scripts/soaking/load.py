"""The mix of requests, and how each request ended."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import httpx

from soaking import polite, rude
from soaking.caller import Busy, Caller

Kind = Callable[[Caller], Awaitable[str | Counter[str] | None]]  # how it ended, if not well
CLIENTS = 6
HUNG_SECONDS = 600.0

WEIGHTS: Mapping[Kind, int] = {
    polite.chat_stream: 8,
    polite.chat_whole: 5,
    polite.with_logprobs: 2,
    polite.tools: 4,
    polite.schema: 4,
    polite.completion: 4,
    polite.two_replies: 3,
    rude.leaves: 5,
    rude.gives_up_waiting: 3,
    rude.drops: 4,
    rude.reads_slowly: 2,
    rude.malformed: 5,
    rude.too_long: 2,
    rude.infill: 2,
    rude.burst: 1,
}


@dataclass(slots=True)
class RequestTally:
    fault: Callable[[str], None]  # hears of each
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def note(self, name: str, kind: Kind, caller: Caller) -> None:
        """Run a request, and count how it ended."""
        try:
            async with asyncio.timeout(HUNG_SECONDS):
                outcome = await kind(caller) or "finished"
        except Busy as busy:
            await asyncio.sleep(busy.seconds)
            outcome = "busy"
        except Exception as error:
            self.fault(f"{name}: {type(error).__name__}: {error}")
            await asyncio.sleep(1)  # a server that is gone would be asked a thousand times
            outcome = "WRONG"
        for how, count in (outcome if isinstance(outcome, Counter) else Counter([outcome])).items():
            self.ended[name, how] += count

    def text(self) -> str:
        lines = (f"{count:8,}  {name}, {how}" for (name, how), count in sorted(self.ended.items()))
        return "\n".join(lines)


def kinds(others: list[str]) -> dict[str, tuple[Kind, int]]:
    """List the kinds of requests with their shares; other APIs as far as they are served."""
    weighted = {kind.__name__: (kind, weight) for kind, weight in WEIGHTS.items()}
    return weighted | {path: (partial(polite.other, path=path), 1) for path in others}


async def load(client: httpx.AsyncClient, seconds: float, tally: RequestTally, seed: int) -> None:
    """Send requests for so long, from several clients at once; those under way are ended."""
    end = time.monotonic() + seconds
    others = [path for path in polite.OTHERS if await is_served(client, path)]
    all_kinds = kinds(others)
    weights = [weight for _, weight in all_kinds.values()]

    async def ask(number: int) -> None:
        caller = Caller(client, random.Random(f"{seed} {number}"))
        while time.monotonic() < end:
            [name] = caller.luck.choices([*all_kinds], weights)
            await tally.note(name, all_kinds[name][0], caller)

    await asyncio.gather(*map(ask, range(CLIENTS)))


async def is_served(client: httpx.AsyncClient, path: str) -> bool:
    return (await client.post(path, json={})).status_code != 404
