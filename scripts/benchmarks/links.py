"""The gain of speculation with the model's layers on another machine, by the link's latency.

`scripts/bench links [--delays MS...] [--tokens N]`: the starter in Q8_0, all its layers on a worker
on this machine, behind a proxy that delays everything each way. The text is code to be edited,
which repeats most of the prompt; the draft model is the same model in Q4_0, kept on the processor.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.comparison.weights import STARTER, weights
from benchmarks.machine import heading
from benchmarks.serving.process import free_port, stop
from benchmarks.serving.slow_link import SlowLink
from localspec import Loading, Options, Settings, load
from localspec.backend_spec import WORKERS
from localspec.bench import prompts
from localspec.models import engines
from localspec.runtime.calibration import calibrate
from localspec.runtime.runtime import Runtime
from localspec_llamacpp import backend as llamacpp

DELAYS = (0.0, 0.2, 1.0, 5.0)  # milliseconds
NARROW, WIDE = 1, 9  # tokens of a forward
TEXTS, WARM_UP_TOKENS = 2, 8
OPTIONS = Options(context=2048)


def main() -> bool:
    """Print a row for each delay; False if the gain of prompt lookup does not grow with it."""
    options = arguments(sys.argv[2:])
    print(heading(), "\n")
    print("| each way | a trip | 1 token | 9 tokens | trips a round | plain | n-gram | draft |")
    print("|---|---|---|---|---|---|---|---|")
    gains = []
    with tempfile.TemporaryDirectory() as folder, worker() as address:
        target, draft = (weights(STARTER, kind, Path(folder)) for kind in ("q8_0", "q4_0"))
        link = SlowLink(address)
        os.environ[WORKERS] = link.endpoint
        for delay in options.delays:
            link.seconds = delay / 1e3
            plain, ngram = measured(target, None, "ngram", link, options.tokens)
            _, helped = measured(target, draft, "draft-model", link, options.tokens)
            gains.append(ngram.rate / plain.rate)
            print(row(delay, target, plain, ngram, helped), flush=True)
    return gains == sorted(gains)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench links", description=__doc__)
    parser.add_argument("--delays", type=float, nargs="+", default=DELAYS, metavar="MS")
    parser.add_argument("--tokens", type=int, default=96)
    return parser.parse_args(words)


class Figures(NamedTuple):
    """Holds the measurements of a way to decode."""

    rate: float  # tokens a second
    drafted: float  # tokens a round
    trips: float  # a round


def row(delay: float, target: Path, plain: Figures, *others: Figures) -> str:
    """Format one delay: the link and the forwards behind it, then the ways to decode."""
    [link] = engines.links("llamacpp")
    with closing(llamacpp.load(target, OPTIONS)) as model:
        costs = calibrate(model, sizes=(NARROW, WIDE)).target
    times = (link.trip_seconds, costs[NARROW], costs[WIDE])
    cells = [f"{delay:g} ms", *(f"{seconds * 1e3:.1f} ms" for seconds in times)]
    cells += [f"{plain.trips:.1f}", f"{plain.rate:.1f} tokens/s"]
    for other in others:
        gain = other.rate / plain.rate
        cells.append(f"{other.rate:.1f}, {gain:.2f} times ({other.drafted:.1f} drafted)")
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


def measured(
    target: Path, draft: Path | None, proposer: str, link: SlowLink, tokens: int
) -> tuple[Figures, Figures]:
    """Decode the same texts plainly and with drafts; prompts are read before."""
    texts = [prompt.messages for prompt in prompts.built_in() if prompt.category == "edit"][:TEXTS]
    with load(target, draft, Loading(OPTIONS, proposer=proposer)) as runtime:
        asked = [runtime.conversation(text) for text in texts]
        timed_reply(runtime, asked, WARM_UP_TOKENS, link)
        plain = timed_reply(runtime, asked, tokens, link, depth=0)
        return plain, timed_reply(runtime, asked, tokens, link)


def timed_reply(
    runtime: Runtime,
    asked: Sequence[Sequence[int]],
    tokens: int,
    link: SlowLink,
    depth: int | None = None,
) -> Figures:
    """Time replies from their first tokens on."""
    settings = Settings(max_tokens=tokens, ignore_end=True, depth=depth)
    seconds, count, rounds, drafted, trips = 0.0, 0, 0, 0, 0
    for text in asked:
        stream = runtime.stream(text, settings, raw=True)
        chunks = iter(stream)
        count -= len(next(chunks).tokens)
        begun, before = time.perf_counter(), link.trips
        list(chunks)
        seconds += time.perf_counter() - begun
        trips += link.trips - before
        count += len(stream.result.tokens)
        rounds += stream.result.speculation.rounds - 1
        drafted += stream.result.speculation.drafted
    return Figures(count / seconds, drafted / rounds, trips / rounds)
