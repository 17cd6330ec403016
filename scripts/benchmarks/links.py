"""What speculation brings where the model's layers are on another machine, by the link's latency.

`scripts/bench links [--delays MS...] [--tokens N]`: the starter in Q8_0, all its layers on a worker
on this machine, behind a proxy that delays everything each way. The text is code to be edited,
which repeats most of the prompt; the draft model is the same model in Q4_0, kept on the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.comparison.weights import STARTER, weights
from benchmarks.machine import heading
from benchmarks.serving.process import free_port, stop
from benchmarks.serving.slow_link import SlowLink
from localspec import Loading, Options, Settings, load
from localspec.backend_spec import WORKERS
from localspec.bench import prompts
from localspec.control.calibration import calibrate
from localspec.models import engines
from localspec.runtime.runtime import Runtime
from localspec.templates.message import Message
from localspec_llamacpp import backend as llamacpp

DELAYS = (0.0, 0.2, 1.0, 5.0)  # milliseconds
WAYS: Mapping[str, tuple[str, bool]] = {  # proposers, and whether there is a draft model
    "plain": ("none", False),
    "n-gram": ("ngram", False),
    "draft model": ("draft-model", True),
}
NARROW, WIDE = 1, 9  # tokens of a forward
WARM_UP_TOKENS = 16
OPTIONS = Options(context=2048)


def main() -> bool:
    """Print a row for each delay; False if the gain of prompt lookup does not grow with it."""
    given = arguments(sys.argv[2:])
    print(heading(), "\n")
    print(
        "| added each way | a trip | 1 token | 9 tokens | trips a round | plain | n-gram | draft |"
    )
    print("|---|---|---|---|---|---|---|---|")
    gains = []
    with tempfile.TemporaryDirectory() as folder, worker() as address:
        pair = [str(weights(STARTER, kind, Path(folder))) for kind in ("q8_0", "q4_0")]
        ends = [address, str(free_port())]  # one for all delays, so that files are tried once
        for delay in given.delays:
            found = [one(*ends, str(delay), way, *pair, str(given.tokens)) for way in WAYS]
            gains.append(found[1]["rate"] / found[0]["rate"])
            print(row(delay, found), flush=True)
    return gains == sorted(gains)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench links", description=__doc__)
    parser.add_argument("--delays", type=float, nargs="+", default=DELAYS, metavar="MS")
    parser.add_argument("--tokens", type=int, default=96)
    return parser.parse_args(words)


def row(delay: float, found: Sequence[Mapping[str, float]]) -> str:
    """Format one delay: the link and the forwards behind it, then the ways to decode."""
    plain, *others = found
    cells = [f"{delay:g} ms", *(f"{plain[name] * 1e3:.1f} ms" for name in ("trip", "one", "nine"))]
    cells += [f"{plain['trips']:.1f}", f"{plain['rate']:.0f} tokens/s"]
    for each in others:
        times = each["rate"] / plain["rate"]
        cells.append(f"{each['rate']:.0f}, {times:.2f} times ({each['drafted']:.1f} drafted)")
    return f"| {' | '.join(cells)} |"


@contextmanager
def worker() -> Iterator[str]:
    """Run `localspec worker` on the processor of this machine."""
    port = str(free_port())
    command = [sys.executable, "-m", "localspec", "worker", "--device", "cpu", "--port", port]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        if "worker at" not in process.stderr.readline():
            raise SystemExit("the worker did not start")
        yield f"127.0.0.1:{port}"
    finally:
        stop(process)  # type: ignore[arg-type]


def one(*words: str) -> Mapping[str, float]:
    """Measure in a process of its own, which knows no other worker."""
    command = [sys.executable, "-m", "benchmarks.links", *words]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        raise SystemExit(found.stderr[-2000:])
    figures: Mapping[str, float] = json.loads(found.stdout.splitlines()[-1])
    return figures


def measured(words: Sequence[str]) -> Mapping[str, float]:
    address, port, delay, way, target, draft, tokens = words
    proposer, helped = WAYS[way]
    link = SlowLink(address, float(delay) / 1e3, port=int(port))
    os.environ[WORKERS] = link.endpoint
    [found_link] = engines.links("llamacpp")
    with closing(llamacpp.load(Path(target), OPTIONS)) as model:
        costs = calibrate(model, sizes=(NARROW, WIDE)).target
    with load(target, draft if helped else None, Loading(OPTIONS, proposer=proposer)) as runtime:
        texts = [each.messages for each in prompts.built_in() if each.category == "edit"]
        said(runtime, texts[0], WARM_UP_TOKENS)
        before = link.trips
        replies = [said(runtime, text, int(tokens)) for text in texts]
        trips = link.trips - before
    total = {name: sum(each[name] for each in replies) for name in replies[0]}
    return {
        "trip": found_link.trip_seconds,
        "one": costs[NARROW],
        "nine": costs[WIDE],
        "trips": trips / total["rounds"],
        "drafted": total["drafted"] / total["rounds"],
        "rate": total["tokens"] / total["seconds"],
    }


def said(runtime: Runtime, asked: Sequence[Message], tokens: int) -> Mapping[str, float]:
    """Time a reply from its first token on."""
    settings = Settings(max_tokens=tokens, ignore_end=True)
    stream = runtime.stream(runtime.conversation(asked), settings)
    begun, first = 0.0, 0
    for chunk in stream:
        if not begun:
            begun, first = time.perf_counter(), len(chunk.tokens)
    seconds, result = time.perf_counter() - begun, stream.result
    told = result.speculation
    return {
        "tokens": len(result.tokens) - first,
        "seconds": seconds,
        "rounds": told.rounds,
        "drafted": told.drafted,
    }


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1:])))
