"""Load a server for some minutes, and check that nothing is lost, wrong or growing."""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.machine import heading
from benchmarks.serving.process import ServerProcess, localspec
from soaking.phases import MINUTE, Soak
from soaking.watch import ServerWatch

SHOWN = 40  # faults
STARTER = "smollm2-135m"
KEPT = "8MiB"  # of texts that slots gave up: how much of it is in use comes and goes
OPTIONS = ("--slots", "4", "--queue", "8", "--context", "2048", "--cache-ram", KEPT)
DEFECTS = re.compile(r"^Traceback.*|.*(?:never retrieved|never awaited|ResourceWarning).*", re.M)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/soak", epilog="Other options are passed on to `localspec serve`."
    )
    parser.add_argument("minutes", type=float)
    parser.add_argument("--folder", type=Path, help="for the logs; else a new one")
    options, more = parser.parse_known_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="localspec-soak-"))
    folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the server ends as well
    print(heading("scripts/soak", logs=folder), flush=True)
    with localspec(STARTER, folder / "server.log", *OPTIONS, *more) as server:
        soak = Soak(ServerWatch(server, folder / "diary.jsonl"))
        faults = asyncio.run(soak.run(options.minutes * MINUTE))
    faults += afterwards(server)
    print(f"\n{soak.report()}\n")
    failed = [f"FAILED  {fault}" for fault in faults[:SHOWN]]
    print("\n".join(failed) or "Nothing is lost, wrong or growing.")
    return 1 if faults else 0


def afterwards(server: ServerProcess) -> Iterator[str]:
    """Check the server's log, and how it ended."""
    if server.process.returncode == -signal.SIGKILL:
        yield "it did not end when it was asked to"
    defects = DEFECTS.findall(server.log.read_text(encoding="utf-8", errors="replace"))
    if defects:
        yield f"{len(defects)} defects are in {server.log}, the first: {defects[0]}"


if __name__ == "__main__":
    sys.exit(main())
