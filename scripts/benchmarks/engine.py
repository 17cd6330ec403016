"""The cost of the engine itself: beside a bare loop, beside llama-bench, and per round.

`scripts/bench engine [NAME_OR_PATH]` measures plain decoding beside a bare loop of llama_decode and
argmax in one process, in turns, and in a process of its own beside llama.cpp's llama-bench, with
the memory of such processes. On the other side all is as llama.cpp sets it; on ours all is as
LocalSpec sets it. With `--parts rounds` no model is needed: a round's logits are ready.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.beside import processes, rounds
from benchmarks.beside.loop import Reply, loop_round
from benchmarks.comparison import llama_server
from benchmarks.comparison.summary import median, ratio
from benchmarks.comparison.weights import AS_IT_IS, KINDS, STARTER, weights
from benchmarks.machine import heading, spread
from localspec_llamacpp.cores import physical_cores

PARTS = ("rounds", "loop", "processes", "memory")
LOOP_GOAL, PROCESS_GOAL = 1.02, 1.04  # times as long
HEAVIER_BYTES = 60 << 20  # goal


def main() -> bool:
    """Print the parts; False if a goal was missed."""
    options = arguments(sys.argv[2:])
    print(heading())
    met = list(python_cost()) if "rounds" in options.parts else []
    if {*options.parts} - {"rounds"}:
        with tempfile.TemporaryDirectory() as folder:
            for kind in options.quantise:
                path = weights(options.model, kind, Path(folder))
                met += beside(Reply(path, options.tokens, options.threads), options)
    return all(met)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench engine", description=__doc__)
    add = parser.add_argument
    add("model", nargs="?", default=STARTER, metavar="NAME_OR_PATH")
    add("--parts", nargs="+", default=PARTS, choices=PARTS)
    add("--quantise", nargs="+", default=["q8_0", "q4_k_m", AS_IT_IS], choices=KINDS)
    add("--rounds", type=int, default=7)
    add("--tokens", type=int, default=128)
    add("--threads", type=int, default=physical_cores())
    add("--llama-server", type=Path, help="a binary with a llama-bench beside it")
    return parser.parse_args(words)


def python_cost() -> Iterator[bool]:
    print(
        f"\nmicroseconds per round besides the model, vocabulary {rounds.VOCABULARY:,}, "
        f"{rounds.ROUNDS} rounds, n-gram drafts of four\n"
    )
    for name, seconds, goal in rounds.timings():
        met = goal is None or float(np.median(seconds)) <= goal * 1e-6
        aim = "" if goal is None else f"   goal {goal:5}: {verdict(met)}"
        print(f"{name:40} {spread(seconds)}{aim}", flush=True)
        yield met


def beside(reply: Reply, options: argparse.Namespace) -> Iterator[bool]:
    """Measure plain decoding with one kind of weights beside llama.cpp alone."""
    print(f"\n{reply.path.name}, {reply.threads} threads, {options.rounds} rounds", flush=True)
    if "loop" in options.parts:
        turns = [loop_round(reply, number) for number in range(options.rounds)]
        bare, ours = zip(*turns, strict=True)
        yield compare("bare llama_decode loop", bare, ours, LOOP_GOAL)
    if "processes" in options.parts:
        bench = llama_server.bench_beside(llama_server.find(options.llama_server))
        theirs, mine = processes.times(bench, reply, options.rounds)
        yield compare("llama-bench, processes", theirs, mine, PROCESS_GOAL)
    if "memory" in options.parts:
        bare_bytes, our_bytes = processes.resident_bytes(reply)
        met = our_bytes - bare_bytes <= HEAVIER_BYTES
        held = f"{bare_bytes / 2**20:7.0f} MiB, LocalSpec {our_bytes / 2**20:.0f}"
        print(f"  {'memory, processes':24} {held}, goal + 60: {verdict(met)}", flush=True)
        yield met


def compare(name: str, theirs: Sequence[float], ours: Sequence[float], goal: float) -> bool:
    """Print the milliseconds per token of both sides and their ratio, lower is better."""
    times = ratio(ours, theirs)
    medians = f"{median(theirs):7.3f} ms per token, LocalSpec {median(ours):7.3f}"
    print(f"  {name:24} {medians}, ratio {times:.3f}, goal {goal}: {verdict(times <= goal)}")
    return times <= goal


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"
