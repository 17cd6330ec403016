"""Plain decoding beside llama.cpp alone: the cost of LocalSpec where it drafts nothing.

`scripts/bench engine [NAME_OR_PATH]` compares the engine with a bare loop of llama_decode and
argmax in one process, in turns, and a process of its own with llama.cpp's llama-bench. On the
other side all is as llama.cpp sets it; on ours all is as LocalSpec sets it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

from benchmarks.comparison import llama_server
from benchmarks.comparison.plan import rotated
from benchmarks.comparison.summary import median, ratio
from benchmarks.comparison.weights import AS_IT_IS, KINDS, STARTER, weights
from benchmarks.machine import heading
from benchmarks.plain import PROMPT, bare_loop, through_engine
from localspec import Loading, Options, Settings, load
from localspec_llamacpp.loading import physical_cores

TURN = 16  # tokens one of them says before it is the other's turn
LOOP_GOAL, PROCESS_GOAL = 1.02, 1.04  # times as long
WARM_UP_TOKENS = 16


def main() -> bool:
    """Print both ratios for each kind of weights; False if a goal was missed."""
    given = arguments(sys.argv[2:])
    bench = llama_server.bench_beside(llama_server.find(given.llama_server))
    print(heading(), "\n")
    met = []
    with tempfile.TemporaryDirectory() as folder:
        for kind in given.quantise:
            path = weights(given.model, kind, Path(folder))
            print(f"{path.name}, {given.threads} threads, {given.rounds} rounds", flush=True)
            met += [beside_loop(path, given), beside_bench(path, bench, given)]
    return all(met)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench engine", description=__doc__)
    add = parser.add_argument
    add("model", nargs="?", default=STARTER, metavar="NAME_OR_PATH")
    add("--quantise", nargs="+", default=["q8_0", "q4_k_m", AS_IT_IS], choices=KINDS)
    add("--rounds", type=int, default=7)
    add("--tokens", type=int, default=128)
    add("--threads", type=int, default=physical_cores())
    add("--llama-server", type=Path, help="a binary with a llama-bench beside it")
    return parser.parse_args(words)


def beside_loop(path: Path, given: argparse.Namespace) -> bool:
    """Let both generate as many tokens in turns, from the beginning in every round."""
    rounds = [loop_round(path, given.tokens, given.threads, at) for at in range(given.rounds)]
    bare, ours = zip(*rounds, strict=True)
    return told("bare llama_decode loop", bare, ours, LOOP_GOAL)


def loop_round(path: Path, tokens: int, threads: int, number: int) -> tuple[float, float]:
    """Return the milliseconds a token takes on either side."""
    bare_tokens = bare_loop(path, threads, as_localspec=False)
    with closing(bare_tokens), closing(through_engine(path, threads)) as our_tokens:
        loops, seconds = (bare_tokens, our_tokens), [0.0, 0.0]
        for loop in loops:
            list(islice(loop, WARM_UP_TOKENS))  # the prompt as well
        for at in range(tokens // TURN):
            for side in rotated((0, 1), number + at):
                begun = time.perf_counter()
                list(islice(loops[side], TURN))
                seconds[side] += time.perf_counter() - begun
    bare, ours = (each / (tokens // TURN * TURN) * 1e3 for each in seconds)
    return bare, ours


def beside_bench(path: Path, bench: Path, given: argparse.Namespace) -> bool:
    """Start a process for every round and side, another side first each time."""

    def theirs() -> float:
        words = ["-m", str(path), "-p", "0", "-n", str(given.tokens), "-t", str(given.threads)]
        [said] = json.loads(output([str(bench), *words, "-r", "1", "-o", "json"]))
        return 1e3 / float(said["avg_ts"])

    def ours() -> float:
        words = [str(path), str(given.tokens), str(given.threads)]
        return float(output([sys.executable, "-m", "benchmarks.engine", *words]))

    found: dict[str, list[float]] = {"theirs": [], "ours": []}
    for number in range(given.rounds):
        for name, measure in rotated([("theirs", theirs), ("ours", ours)], number):
            found[name].append(measure())
    return told("llama-bench, processes", found["theirs"], found["ours"], PROCESS_GOAL)


def output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def told(name: str, theirs: Sequence[float], ours: Sequence[float], goal: float) -> bool:
    found = ratio(ours, theirs)
    verdict = "met" if found <= goal else "MISSED"
    times = f"{median(theirs):7.3f} ms a token, LocalSpec {median(ours):7.3f}"
    print(f"  {name:24} {times}, ratio {found:.3f}, goal {goal}: {verdict}", flush=True)
    return found <= goal


def one_process(path: Path, tokens: int, threads: int) -> float:
    """Return the milliseconds a token takes in a reply, after a short one."""
    options = Options(threads=threads, context=2048)
    with load(path, None, Loading(options, proposer="none")) as runtime:
        runtime.generate(PROMPT, Settings(max_tokens=WARM_UP_TOKENS, ignore_end=True))
        stream = runtime.stream(PROMPT, Settings(max_tokens=tokens + 1, ignore_end=True), raw=True)
        times = [time.perf_counter() for _ in stream]
        said = len(stream.result.tokens)
    return (times[-1] - times[0]) / (said - 1) * 1e3


if __name__ == "__main__":
    print(one_process(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
