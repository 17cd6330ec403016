"""Measurements of a server, taken every few seconds and written down."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import httpx
import psutil

from benchmarks.serving.process import ServerProcess

MIB = 1 << 20
FIGURE = re.compile(r"^localspec_(memory_bytes|kept_bytes|slots|queue)(?:{(.*)})? (\S+)$", re.M)


@dataclass(frozen=True, slots=True)
class ServerSample:
    seconds: float  # since the server began
    mib: float  # resident, but for texts that are kept on purpose, in a bounded room of their own
    kept: float  # MiB of those
    threads: int
    descriptors: int  # open files and sockets
    children: int
    busy: int  # slots
    queue: int

    @property
    def idle(self) -> bool:
        return self.busy == self.queue == 0


@dataclass(slots=True)
class ServerWatch:
    server: ServerProcess
    diary: Path
    begun: float = field(default_factory=time.monotonic)
    samples: list[ServerSample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def write(self, **fields: object) -> None:
        with self.diary.open("a", encoding="utf-8") as file:
            print(json.dumps({"seconds": round(self.seconds, 1), **fields}), file=file)

    def fault(self, fault: str) -> None:
        self.faults.append(fault)
        self.write(fault=fault)

    async def look(self) -> ServerSample:
        """Take one now, on a connection of its own, as a monitor would."""
        async with self.server.client(60) as client:
            text = (await client.get("/metrics")).raise_for_status().text
        figures = {
            (name, "busy" in (of or "")): float(value) for name, of, value in FIGURE.findall(text)
        }
        kept = figures["kept_bytes", False]
        parent = psutil.Process(self.server.process.pid)
        process = next(iter(parent.children()), parent)  # the one that answers
        return ServerSample(
            seconds=round(self.seconds, 1),
            mib=round((figures["memory_bytes", False] - kept) / MIB, 1),
            kept=round(kept / MIB, 1),
            threads=process.num_threads(),
            descriptors=process.num_fds(),
            children=len(process.children(recursive=True)),
            busy=int(figures["slots", True]),
            queue=int(figures["queue", False]),
        )

    async def keep_looking(self, every: float) -> None:
        """Take them until cancelled."""
        while True:
            await asyncio.sleep(every)
            try:
                self.samples.append(await self.look())
            except (httpx.HTTPError, psutil.Error) as error:
                self.fault(f"no figures: {type(error).__name__} {error}")
            else:
                self.write(**asdict(self.samples[-1]))

    async def quiet(self, within: float = 60.0) -> ServerSample:
        """Wait until everything has ended, or `within` seconds have passed."""
        end = time.monotonic() + within
        while not (await self.look()).idle and time.monotonic() < end:
            await asyncio.sleep(0.5)
        await asyncio.sleep(1)
        return await self.look()
