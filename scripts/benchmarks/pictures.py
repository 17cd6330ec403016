"""The first token behind a new picture, beside llama-server, on the same files and in turns.

`scripts/bench pictures MODEL MMPROJ [--llama FILE] [--threads N] [--rounds N]`. In place of MMPROJ
`made` writes a projector of random weights, of ViT-B's size. Each picture is new to both, so each
is encoded; the text is the same. Ratios are ours by theirs: of time, and of processor time.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from benchmarks.comparison import asking, llama_server
from benchmarks.machine import heading
from benchmarks.seeing import projector_file
from benchmarks.serving.process import ServerProcess, free_port, localspec, running
from localspec.models.locate import locate
from localspec_llamacpp.headers.footprint import inspect
from tests.tiny_vision import picture

CONTEXT = 2048
CLOSE = 1.05
QUESTION = "Describe this picture."


class Turn(NamedTuple):
    seconds: float  # to the first token
    worked: float  # by the server, in seconds of a core


def main() -> bool:
    """Print the times of both; False if ours are later than `CLOSE`."""
    options = arguments(sys.argv[2:])
    print(heading(), "\n")
    path = locate(options.model, "llamacpp").path
    with tempfile.TemporaryDirectory() as folder:
        logs, mmproj = Path(folder), Path(options.mmproj)
        if options.mmproj == "made":
            mmproj = projector_file.write(logs / "mmproj.gguf", inspect(path).embedding)
        words = ("--mmproj", str(mmproj), "--threads", str(options.threads))
        ours = localspec(path, logs / "ours.log", *words, "--context", str(CONTEXT))
        with ours as our_server, theirs(path, logs, options.llama, words) as their_server:
            return compared((our_server, their_server), options.rounds)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench pictures", description=__doc__)
    parser.add_argument("model", help="a name or a file")
    parser.add_argument("mmproj", help="a projector, or: made")
    parser.add_argument("--llama", type=Path, help="a llama-server")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    return parser.parse_args(words)


def theirs(
    path: Path, logs: Path, program: Path | None, words: Sequence[str]
) -> AbstractContextManager[ServerProcess]:
    port = str(free_port())
    command = [str(llama_server.find(program)), "--model", str(path), "--port", port, *words]
    command += ["--ctx-size", str(CONTEXT), "--parallel", "1", "--jinja", "--offline"]
    address = f"http://127.0.0.1:{port}"
    return running("llama-server", command, logs / "theirs.log", lambda: address)


def compared(servers: Sequence[ServerProcess], rounds: int) -> bool:
    """Ask both about new pictures in turns; print medians of seconds, and means of a core's."""
    turns: list[list[Turn]] = [[], []]
    for at in range(rounds + 1):
        for server, own in zip(servers, turns, strict=True):
            own.append(asked(server, at))
    ours, their = (np.array(own[1:]) for own in turns)  # the first one warms up
    later = float(np.median(ours[:, 0] / their[:, 0]))
    more = float(ours[:, 1].sum() / their[:, 1].sum())  # it is counted in steps of 10 ms
    for name, values in (("ours", ours), ("llama-server", their)):
        first, worked = np.median(values[:, 0]) * 1e3, values[:, 1].mean() * 1e3
        print(f"{name:<14}{first:9.1f} ms to the first token{worked:9.1f} ms of a core")
    print(f"{'ratio':<14}{later:9.3f}{'':22}{more:9.3f}")
    return min(later, more) <= CLOSE


def asked(server: ServerProcess, seed: int) -> Turn:
    """Show one picture, and wait for the first token."""
    data = base64.b64encode(picture(seed, projector_file.SIDE, projector_file.SIDE)).decode()
    content = [
        {"type": "image_url", "image_url": {"url": f"data:image/bmp;base64,{data}"}},
        {"type": "text", "text": QUESTION},
    ]
    body = {
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 1,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    before = worked(server)
    reply = asking.ask(server.address, body, "pictures")
    return Turn(reply.first_seconds, worked(server) - before)


def worked(server: ServerProcess) -> float:
    """Count the seconds of a core that a server and its processes took."""
    process = psutil.Process(server.process.pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return float(sum(time.user + time.system for time in times))
