"""The files of a git repository that git ignores."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from localspec.base.interruption import check_patience

MAX_SECONDS, LOOK_SECONDS = 30.0, 0.1
# A setting of the repository could have git run a program, which asks nothing of it.
GIT = ("git", "-c", "core.fsmonitor=false")
LIST = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")


def begins_at(folder: str) -> bool:
    """Return whether a folder is the top of a repository."""
    return os.path.lexists(os.path.join(folder, ".git"))


def is_within(folder: Path) -> bool:
    """Return whether a folder lies in a repository."""
    whole = folder.absolute()
    return any(begins_at(os.fspath(parent)) for parent in (whole, *whole.parents))


def ignored_paths(folder: str, seconds: float = MAX_SECONDS) -> frozenset[str] | None:
    """Ask git for the paths in a folder that it ignores; None if it has no answer.

    Of a folder that is ignored whole it names the folder alone, which is "." if it is this one.
    """
    # Its own variables may name another repository.
    environment = {name: text for name, text in os.environ.items() if name[:4] != "GIT_"}
    pipe, null, command = subprocess.PIPE, subprocess.DEVNULL, (*GIT, *LIST)
    try:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=null, stdout=pipe, stderr=null
        )
    except OSError:
        return None
    with process:
        try:
            output = output_of(process, seconds)
        finally:
            process.kill()
    if output is None or process.returncode:
        return None
    names = map(os.fsdecode, output.split(b"\0")[:-1])
    return frozenset(os.path.join(folder, os.path.normpath(name)) for name in names)


def output_of(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """Wait for the end of a process, which may hang; None if it takes too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        check_patience()
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=LOOK_SECONDS)[0]
    return None
