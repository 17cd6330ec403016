"""Run pip with its output in a log, show how long it takes, and explain why it failed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

from localspec_build import folders
from localspec_build.machine import Tools, has_compiler
from localspec_build.progress import BuildProgress

# pip exits with 1 for everything, so the cause is looked up in its log.
DISK_FULL = r"No space left on device|Disk quota exceeded|WinError 112\b"
MEMORY_FULL = r"\bKilled\b|\(Kill signal\)|out of heap space|[Cc]annot allocate memory"
BUILD_FAILED = r"Failed building wheel|CMake configuration failed"
UNREACHABLE = r"connection broken by|Max retries exceeded|timed out|\(from versions: none\)"
# What compilers, linkers and CMake say; pip's own last lines have nothing of it.
FAULT = re.compile(
    r"^[ \t]*(?!error\b|fatal\b)\S.*\b(?:error|fatal)(?: [A-Z]+\d+)?\s*: .*"
    r"|^.*CMake Error.*(?:\n.*){2}",
    re.M,
)
FAULTS = 3  # are quoted
GAVE_UP = "Nothing was fetched in time."  # at the end of the log
BEGUN = re.compile(r"^ *(?:Downloading|Using cached|Processing) ", re.M)
COMPILER_ADVICE = {
    "darwin": "run `xcode-select --install`",
    "win32": "install the Visual Studio Build Tools with `Desktop development with C++`",
    "linux": "install g++ or clang, as root: apt-get install g++ (or dnf install gcc-c++)",
}


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def command(python: str) -> list[str]:
    """Return the pip that installs for a Python; uv makes environments without one."""
    if _succeeds(python, "-m", "pip", "--version"):
        return [python, "-m", "pip"]
    own = folders.data() / "pip"
    program = program_of(own)
    if not _succeeds(program, "-m", "pip", "--version"):
        venv.create(own, clear=True, with_pip=True, symlinks=sys.platform != "win32")
    return [program, "-m", "pip", "--python", python]


def program_of(environment: Path) -> str:
    return str(environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def run(
    pip: Sequence[str],
    *arguments: str,
    log: Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    patience_seconds: float = inf,
) -> bool:
    """Run pip to its end, and show now and then what it is at; return whether it succeeded.

    It is ended where it has not begun to get a package when its patience is over.
    """
    whole = [*pip, *arguments[:1], "--disable-pip-version-check", "--no-input", *arguments[1:]]
    more = {**os.environ, **(environment or {})}
    log.parent.mkdir(parents=True, exist_ok=True)
    _heed()
    with log.open("wb") as out:
        child = subprocess.Popen(
            whole,
            cwd=folder,
            env=more,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            process_group=0,  # so that it can be ended with the compilers that it started
        )
    try:
        return _watch(child, log, patience_seconds) == 0
    except KeyboardInterrupt:
        _end(child)
        raise


def _heed() -> None:
    """Let what would end this process end pip first, unless it is ignored as by nohup."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End pip and all that it started; it has five seconds to tidy up."""
    with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired, ProcessLookupError):
        if sys.platform != "win32":
            os.killpg(child.pid, signal.SIGINT)
        child.wait(timeout=5)  # on Windows it got the Ctrl-C too
    with contextlib.suppress(ProcessLookupError):
        if sys.platform == "win32":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)


def _watch(child: subprocess.Popen[bytes], log: Path, patience_seconds: float) -> int:
    """Show a line that changes, or one a minute where there is no terminal."""
    terminal = sys.stderr.isatty()
    progress, begun, shown = BuildProgress(), time.monotonic(), 0.0
    with log.open(encoding="utf-8", errors="replace") as growing:
        while child.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=1)
            seconds = time.monotonic() - begun
            progress.feed(growing.read(), seconds)
            if seconds > patience_seconds and not BEGUN.search(content(log)):
                _end(child)
                with log.open("a", encoding="utf-8") as out:
                    out.write(f"\n{GAVE_UP}\n")
            ended = child.returncode is not None
            if terminal or seconds - shown >= 60 or (ended and shown):
                shown = seconds
                line = f"{progress.line(seconds):.79}"
                if terminal:
                    say(f"{line:79}", end="\n" if ended else "\r")
                else:
                    say(line)
    return child.returncode


def explain(log: Path) -> str:
    """Name the cause of a failure as far as the log and the machine show it.

    The log is kept by another name, since what takes the failed one's place writes its own.
    """
    output = content(log)
    log = _kept(log)
    built = not re.search(BUILD_FAILED, output)
    if re.search(DISK_FULL, output) or shutil.disk_usage(log.parent).free < 2**20:
        cause = "The disk is full, here or where temporary files go: free 2 GB (4 GB for CUDA)"
    elif not built and not has_compiler(Tools(os.environ)):
        cause = f"llama.cpp has to be built and there is no C++ compiler: {compiler_advice()}"
    elif re.search(MEMORY_FULL, output):
        cause = "The memory is full: set CMAKE_BUILD_PARALLEL_LEVEL=1 (a slower build)"
    elif re.search(UNREACHABLE, output) and built:
        cause = "The package index cannot be reached: check the network (or pip's configuration)"
    else:
        faults = [" ".join(fault.split()) for fault in FAULT.findall(output)[:FAULTS]]
        lines = faults or output.splitlines()[-15:]
        return "\n".join([*lines, f"\npip failed; its whole output is in {log}"])
    return f"{cause}, then run the same command again.\npip's output is in {log}"


def compiler_advice() -> str:
    """Describe how to install a C++ compiler here."""
    return COMPILER_ADVICE.get(sys.platform, COMPILER_ADVICE["linux"])


def _kept(log: Path) -> Path:
    aside = log.with_name(f"{log.stem}-failed{log.suffix}")
    with contextlib.suppress(OSError):
        return log.replace(aside)
    return log


def content(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip() if log.is_file() else ""


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
