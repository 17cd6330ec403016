"""The files of a corpus: which there are, and which of them are text."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from localspec.corpus.segment import Key
from localspec.interruption import check_patience

MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 1 << 30  # of all files
MAX_FILES = 100_000
# Folders beside hidden ones that hold what others wrote or what is made from the rest.
NEEDLESS = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "build", "dist"))
NEEDLESS |= {"target"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The files to index, by path, and how many were left out, by the reason."""

    keys: Sequence[Key] = ()
    left_out: Counter[str] = field(default_factory=Counter)


def listing(root: Path, most_bytes: int = MAX_BYTES) -> Listing:
    """List the files under a folder, or one file: those that changed last, up to the bound."""
    left_out: Counter[str] = Counter()
    keys: list[Key] = []
    for path, info in files(root):
        if not stat.S_ISREG(info.st_mode) or not info.st_size:
            continue
        if info.st_size > MAX_FILE_BYTES:
            left_out[f"larger than {MAX_FILE_BYTES >> 20} MiB"] += 1
            continue
        keys.append((path, info.st_size, info.st_mtime_ns))
    keys.sort(key=lambda key: key[2], reverse=True)
    total = 0
    for at, (_, size, _) in enumerate(keys):
        total += size
        if total > most_bytes or at >= MAX_FILES:
            left_out["beyond the bound"] += len(keys) - at
            del keys[at:]
            break
    return Listing(sorted(keys), left_out)


def files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what lies under a folder, or a file, by path; no link is followed."""
    if not root.is_dir():
        with suppress(OSError):
            yield os.fspath(root), root.stat()
        return
    pending = [os.fspath(root)]
    while pending:
        check_patience()
        for entry in entries(pending.pop()):
            with suppress(OSError):  # it has just gone
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)
                elif entry.name not in NEEDLESS:
                    pending.append(entry.path)


def entries(folder: str) -> list[os.DirEntry[str]]:
    """List a folder without what is hidden; nothing if it has gone, or is not for this user."""
    with suppress(OSError), os.scandir(folder) as listed:
        return [entry for entry in listed if not entry.name.startswith(".")]
    return []


def text_of(key: Key) -> str:
    """Read a file; "" if it is no text, or gone."""
    try:
        with open(key[0], "rb") as file:
            data = file.read(MAX_FILE_BYTES)
        return "" if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return ""
