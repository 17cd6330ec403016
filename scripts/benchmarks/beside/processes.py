"""A process of its own for each reply: LocalSpec's, llama-bench's, and the bare loop's.

`python -m benchmarks.beside.processes SIDE FILE TOKENS THREADS` is such a process. It prints the
milliseconds per token, and the bytes that it holds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import psutil

from benchmarks.beside.loop import CONTEXT, PROMPT, WARM_UP_TOKENS, Reply, bare_loop
from benchmarks.comparison.plan import rotated
from localspec import Loading, Options, Settings, load


def times(bench: Path, reply: Reply, rounds: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds per token of llama-bench and of LocalSpec, in turns."""
    measured: dict[str, list[float]] = {"llama-bench": [], "localspec": []}
    for number in range(rounds):
        for side in rotated(tuple(measured), number):
            took = localspec(reply)[0] if side == "localspec" else llama_bench(bench, reply)
            measured[side].append(took)
    return measured["llama-bench"], measured["localspec"]


def resident_bytes(reply: Reply) -> tuple[int, int]:
    """Return what a process with the bare loop holds, and one with LocalSpec."""
    return own_process("bare", reply)[1], localspec(reply)[1]


def localspec(reply: Reply) -> tuple[float, int]:
    return own_process("localspec", reply)


def llama_bench(program: Path, reply: Reply) -> float:
    options = ["-m", str(reply.path), "-p", "0", "-n", str(reply.tokens), "-t", str(reply.threads)]
    [run] = json.loads(output([str(program), *options, "-r", "1", "-o", "json"]))
    return 1e3 / float(run["avg_ts"])


def own_process(side: str, reply: Reply) -> tuple[float, int]:
    arguments = [side, str(reply.path), str(reply.tokens), str(reply.threads)]
    milliseconds, held = output([sys.executable, "-m", __name__, *arguments]).split()
    return float(milliseconds), int(held)


def output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def run_bare(reply: Reply) -> tuple[float, int]:
    loop = bare_loop(reply.path, reply.threads)
    times = [time.perf_counter() for _ in islice(loop, reply.tokens + 1)]
    return mean(times, len(times)), psutil.Process().memory_info().rss


def run_localspec(reply: Reply) -> tuple[float, int]:
    """Time a reply after a short one that warms the model up."""
    options = Options(threads=reply.threads, context=CONTEXT)
    with load(reply.path, None, Loading(options, proposer="none")) as runtime:
        runtime.generate(PROMPT, Settings(max_tokens=WARM_UP_TOKENS, ignore_end=True))
        settings = Settings(max_tokens=reply.tokens + 1, ignore_end=True)
        stream = runtime.stream(PROMPT, settings, raw=True)
        times = [time.perf_counter() for _ in stream]
        return mean(times, len(stream.result.tokens)), psutil.Process().memory_info().rss


def mean(times: Sequence[float], tokens: int) -> float:
    """Compute the milliseconds per token between the first and the last of them."""
    return (times[-1] - times[0]) / (tokens - 1) * 1e3


if __name__ == "__main__":
    side, path, tokens, threads = sys.argv[1:]
    run = run_bare if side == "bare" else run_localspec
    print(*run(Reply(Path(path), int(tokens), int(threads))))
