"""`localspec serve` on the starter in Q8_0, against llama-cpp-python's server and against itself.

`scripts/bench server [PART...] [--rounds N] [--threads N]`; everything is printed as Markdown.
The other server needs `pip install "llama-cpp-python[server]"`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.machine import heading
from benchmarks.serving import arrival, restart, schemas, streams, turns
from benchmarks.serving.process import Bench
from localspec.models.locate import locate
from localspec_llamacpp.bindings.library import requantise
from localspec_llamacpp.loading import physical_cores

Part = Callable[[Bench], bool]
PARTS: Mapping[str, Part] = {
    "streams": streams.measure,
    "turns": turns.measure,
    "schemas": schemas.measure,
    "arrival": arrival.measure,
    "restart": restart.measure,
}


def main() -> bool:
    """Measure what is named, or everything; False if a goal was missed."""
    parser = argparse.ArgumentParser(prog="scripts/bench server")
    names = ", ".join(PARTS)
    parser.add_argument("part", nargs="*", choices=[[], *PARTS], metavar="PART", help=names)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=physical_cores(), help="of each server")
    options = parser.parse_args(sys.argv[2:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the servers end as well
    print(f"```\n{heading()}\n```", flush=True)
    met = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "smollm2-q8_0.gguf"
        requantise(locate("smollm2-135m").path, path, "q8_0")
        bench = Bench(path, Path(folder), options.rounds, options.threads)
        for name in options.part or PARTS:
            print(flush=True)
            met.append(PARTS[name](bench))
            print("" if met[-1] else "\nGoal missed.", flush=True)
    return all(met)
