"""A run of `localspec bench` on a served model, which leaves memory meanwhile."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.model_host import ModelHost

MAX_REPORT = 200_000  # characters
MAX_ERROR = 2_000
Run = Callable[[Sequence[str]], Awaitable[tuple[int, str, str]]]  # exit code, report, errors


async def run_localspec(arguments: Sequence[str]) -> tuple[int, str, str]:
    """Run another LocalSpec to its end; it ends with the task that waits for it."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "localspec", *arguments)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    try:
        report, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    return (
        process.returncode or 0,
        report.decode("utf-8", "replace"),
        errors.decode("utf-8", "replace"),
    )


@dataclass(frozen=True, slots=True)
class BenchState:
    state: Literal["none", "running", "done", "failed"] = "none"
    model: str = ""
    started: float = 0.0  # seconds since 1970
    ended: float | None = None
    report: str = ""
    error: str = ""

    def described(self) -> dict[str, object]:
        fields = asdict(self)
        ended = fields.pop("ended") or time.time()
        return fields | {"seconds": ended - self.started if self.started else 0.0}


class BenchRun:
    """At most one run, and the report of the last. Belongs to the event loop."""

    def __init__(self, host: ModelHost, run: Run = run_localspec) -> None:
        self._host = host
        self._run = run
        self.state = BenchState()

    def begin(self, name: str) -> None:
        """Begin to measure a model; requests for it wait until that is over."""
        offer = self._host.offers.meant_by(name)
        if self.state.state == "running":
            raise Refused(Fault(409, f"{self.state.model} is being measured: wait for its report"))
        if not offer.bench:
            raise Refused(
                Fault(400, f"{offer.name} cannot be measured here: run localspec bench for it")
            )
        served = self._host.loaded.get(offer.name)
        if served and served.users:
            message = f"{offer.name} answers {served.users} requests: wait, or stop them"
            raise Refused(Fault(409, message))
        self.state = BenchState("running", offer.name, time.time())
        self._host.work(self._measure(offer.name, offer.bench))

    async def _measure(self, name: str, arguments: Sequence[str]) -> None:
        begun, loaded = self.state.started, name in self._host.loaded
        try:
            async with self._host.set_aside(name):
                code, report, errors = await self._run(["bench", *arguments])
        except Exception as error:
            code, report, errors = 1, "", str(error)
        if loaded:
            self._host.begin_loading(name)
        if code:
            why = errors.strip()[-MAX_ERROR:] or f"it ended with {code}"
            self.state = BenchState("failed", name, begun, time.time(), error=why)
        else:
            self.state = BenchState("done", name, begun, time.time(), report[:MAX_REPORT])
