"""The files of a git repository that git ignores."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

MAX_SECONDS = 10.0
# A setting of the repository could have git run a program, which asks nothing of it.
GIT = ("git", "-c", "core.fsmonitor=false")
LIST = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")


def begins_at(folder: str) -> bool:
    """Return whether a folder is the top of a repository."""
    return os.path.lexists(os.path.join(folder, ".git"))


def is_within(folder: Path) -> bool:
    """Return whether a folder lies in a repository."""
    return any(begins_at(os.fspath(parent)) for parent in (folder, *folder.parents))


def ignored(folder: str) -> frozenset[str] | None:
    """Ask git for the paths in a folder that it ignores; None if it has no answer.

    Of folders that are ignored whole, it names the folder alone.
    """
    # Its own variables may name another repository.
    environment = {name: text for name, text in os.environ.items() if name[:4] != "GIT_"}
    try:
        done = subprocess.run(
            (*GIT, *LIST),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=MAX_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    names = done.stdout.split(b"\0")
    return frozenset(
        os.path.normpath(os.path.join(folder, os.fsdecode(name))) for name in names if name
    )
