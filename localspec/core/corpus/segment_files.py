"""The segments of one corpus in their folder, brought up to date."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from localspec.base.errors import LocalSpecError
from localspec.base.system.folders import make_private
from localspec.base.tokens import Tokens
from localspec.core.corpus.segment import Key, Segment, Text, open_segment, pack, write

SEGMENT_BYTES, MAX_SEGMENTS = 8 << 20, 32  # of text in one; a change writes one of them anew
NAME = re.compile(r"[0-9a-f]{32}\.npy")
MIN_FREE_BYTES = 512 << 20  # that an index leaves on its disk
STALE_SECONDS = 3600.0  # after which a file that is being written was left by a process that died

Tokenise = Callable[[Key], Tokens]
Segments = Mapping[str, Segment]


def read(folder: Path) -> Segments:
    """Map the segments of a folder into memory."""
    names = [path.name for path in paths(folder) if NAME.fullmatch(path.name)]
    segments = ((name, open_segment(folder / name)) for name in sorted(names))
    return {name: segment for name, segment in segments if segment}


def paths(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []


def update(
    folder: Path,
    old: Segments,
    keys: Sequence[Key],
    tokenise: Tokenise,
    min_free_bytes: int = MIN_FREE_BYTES,
) -> Iterator[Segments]:
    """Index what is not indexed yet; yield all segments after each one that was made.

    A segment is named by its files and their times, so that processes share those that are alike.
    Files that did not change are not read again.
    """
    make_private(folder)
    groups = {name_of(group): group for group in group_files(keys)}
    indexed: dict[Key, Tokens] = {}
    if groups.keys() - old.keys():
        indexed = {key: tokens for segment in old.values() for key, tokens in segment.texts()}
    new: dict[str, Segment] = {}
    for name, group in groups.items():
        texts = ((key, indexed[key] if key in indexed else tokenise(key)) for key in group)
        segment = old.get(name) or open_segment(folder / name)
        new[name] = segment or write_segment(folder / name, texts, min_free_bytes)
        yield {**old, **new}
    remove_others(folder, new)
    yield new


def group_files(keys: Sequence[Key]) -> list[list[Key]]:
    """Divide files by their paths, so that each stays in its group when others change."""
    total, count = sum(size for _, size, _ in keys), 1
    while count < MAX_SEGMENTS and total > count * SEGMENT_BYTES:
        count *= 2
    groups: list[list[Key]] = [[] for _ in range(count)]
    for key in keys:
        groups[zlib.crc32(key[0].encode("utf-8", "surrogatepass")) % count].append(key)
    return [group for group in groups if group]


def write_segment(path: Path, texts: Iterable[Text], min_free_bytes: int) -> Segment:
    """Index texts in a file."""
    array = pack(texts)
    require_room(path.parent, array.nbytes, min_free_bytes)
    write(path, array)
    return open_segment(path) or Segment(array)


def require_room(folder: Path, size: int, min_free: int) -> None:
    """Raise if a file would take what is to stay free."""
    free = shutil.disk_usage(folder).free
    if free < size + min_free:
        raise LocalSpecError(
            f"{folder} is on a disk with {free >> 20:,} MiB free; {size >> 20:,} MiB more would "
            f"leave less than {min_free >> 20:,}: make room, or name fewer files"
        )


def name_of(group: Sequence[Key]) -> str:
    return f"{hashlib.sha256(json.dumps(group).encode()).hexdigest()[:32]}.npy"


def remove_others(folder: Path, current: Segments) -> None:
    """Remove the segments of files as they were, and what processes that died left."""
    for path in paths(folder):
        with suppress(OSError):
            part = path.suffix == ".part"
            stale = part and time.time() - path.stat().st_mtime > STALE_SECONDS
            if stale or (not part and path.name not in current):
                path.unlink()
