"""Many files, each tried in a fork of one process, which takes a twentieth of a new one's time.

`python forked.py < PATHS` prints a line of JSON for each path: how its trial ended.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

SECONDS, PATIENCE = 20, 10  # of work; times as long by the clock, where others work too
MEMORY = 2 << 30  # bytes of address space that a trial may take beside what is mapped at first


def outcomes(paths: Sequence[Path]) -> list[str]:
    """`ran`, `refused: ...`, `killed: SIGNAL ...` or `late`, for each path."""
    command = [sys.executable, __file__]
    text = "\n".join(map(str, paths))
    environment = os.environ | {"GGML_NO_BACKTRACE": "1"}
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    from localspec.running.models.trial_child import Trial

    for line in sys.stdin.read().splitlines():
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os._exit(attempt(Trial, Path(line), writing))
        os.close(writing)
        print(json.dumps(ended(child, reading)), flush=True)
        os.close(reading)


def attempt(kind: type, path: Path, writing: int) -> int:
    from localspec.base.errors import LocalSpecError
    from localspec.interfaces.backend import Options
    from localspec.running.models.engines import engine

    os.dup2(writing, 2)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    try:
        trial = kind(engine("llamacpp"), path)
        trial.footprint()
        trial.run(Options(threads=1), lambda: None)
    except LocalSpecError as error:
        os.write(2, f"\n{error}".encode())
        return 1
    return 0


def ended(child: int, reading: int) -> str:
    limit = time.monotonic() + PATIENCE * SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > limit:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "late"
        time.sleep(0.002)
    words = os.read(reading, 1 << 16).decode(errors="replace").strip().splitlines() or [""]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return "late"
    if os.WIFSIGNALED(status):
        return f"killed: {signal.Signals(os.WTERMSIG(status)).name} {words[-1]}"
    return f"refused: {words[-1]}" if os.WEXITSTATUS(status) else "ran"


if __name__ == "__main__":
    main()
