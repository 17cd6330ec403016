"""The files of a corpus: which there are, and which of them are text."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from localspec.base.interruption import check_patience
from localspec.core.corpus import repository
from localspec.core.corpus.segment import Key

MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 1 << 30  # of all files
PIECE = 16_384  # characters: more without a break may cost a tokenizer half a GiB of stack
MAX_FILES, MAX_SEEN = 100_000, 200_000  # to index, and to look at
# Folders beside hidden ones that hold what others wrote or what is made from the rest. In a
# repository, git reports which files these are.
NEEDLESS = frozenset(("node_modules", "__pycache__", "site-packages", "venv", "build", "dist"))
NEEDLESS |= {"target"}


@dataclass(frozen=True, slots=True)
class Listing:
    """The files to index, by path, and how many of what were left out."""

    keys: Sequence[Key] = ()
    left_out: Counter[str] = field(default_factory=Counter)


def listing(root: Path, most_bytes: int = MAX_BYTES, most_seen: int = MAX_SEEN) -> Listing:
    """List the files under a folder, or one file: those that changed last, up to the bound."""
    left_out: Counter[str] = Counter()
    keys: list[Key] = []
    for seen, (path, info) in enumerate(files(root, left_out)):
        if seen >= most_seen:
            left_out[f"folders with more than {most_seen:,} files, so not all of it"] += 1
            break
        if not stat.S_ISREG(info.st_mode) or not info.st_size:
            continue
        if info.st_size > MAX_FILE_BYTES:
            left_out[f"files larger than {MAX_FILE_BYTES >> 20} MiB"] += 1
            continue
        keys.append((path, info.st_size, info.st_mtime_ns))
    keys.sort(key=lambda key: key[2], reverse=True)
    total = 0
    for at, (_, size, _) in enumerate(keys):
        total += size
        if total > most_bytes or at >= MAX_FILES:
            left_out[f"older files, beyond {MAX_FILES:,} or {MAX_BYTES >> 30} GiB"] += (
                len(keys) - at
            )
            del keys[at:]
            break
    return Listing(sorted(keys), left_out)


def files(root: Path, left_out: Counter[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what lies under a folder, or a file, by path; no link is followed."""
    if not root.is_dir():
        with suppress(OSError):
            yield os.fspath(root), root.stat()
        return
    top, ignored = os.fspath(root), set[str]()
    pending = [(top, NEEDLESS)]
    while pending:
        folder, needless = pending.pop()
        if repository.begins_at(folder) or (folder == top and repository.is_within(root)):
            paths = repository.ignored_paths(folder)
            if paths is None:
                left_out["repositories of which git does not tell what it ignores"] += 1
            elif os.path.join(folder, os.curdir) not in paths:
                needless = frozenset()
                ignored |= paths
        for entry in entries(folder, left_out):
            if entry.name.startswith(".") or entry.path in ignored:
                continue
            with suppress(OSError):  # it has just gone
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.path, entry.stat(follow_symlinks=False)
                elif entry.name not in needless:
                    pending.append((entry.path, needless))


def entries(folder: str, left_out: Counter[str]) -> Iterator[os.DirEntry[str]]:
    """Yield what lies in a folder; nothing if it has gone, or is not for this user."""
    try:
        with os.scandir(folder) as listed:
            for entry in listed:
                check_patience()
                yield entry
    except OSError:
        left_out["folders that cannot be read"] += 1


def text_of(key: Key) -> str:
    """Read a file; "" if it is no text, or gone."""
    try:
        with open(key[0], "rb", opener=open_directly) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            data = file.read(MAX_FILE_BYTES)
        return "" if b"\0" in data else data.decode()
    except (OSError, UnicodeDecodeError):
        return ""


def open_directly(path: str, flags: int) -> int:
    """Open a file, without waiting for a pipe or following a link that it has become."""
    for name in ("O_NOFOLLOW", "O_NONBLOCK"):  # which Windows does not have
        flags |= getattr(os, name, 0)
    return os.open(path, flags)


def pieces(text: str) -> Iterator[str]:
    """Divide a text, between lines where it has any."""
    begin = 0
    while begin < len(text):
        check_patience()
        end = begin + PIECE
        if end < len(text):
            end = text.rfind("\n", begin, end) + 1 or end
        yield text[begin:end]
        begin = end
