"""The segments of one corpus in their folder, brought up to date."""

from __future__ import annotations

import hashlib
import json
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from localspec.corpus.segment import Key, Segment, opened, packed, write
from localspec.system.folders import make_private
from localspec.tokens import Tokens

SEGMENT_BYTES, MAX_SEGMENTS = 8 << 20, 32  # of text in one; a change writes one of them anew
NAME = re.compile(r"[0-9a-f]{32}\.npy")
STALE_SECONDS = 3600.0  # after which a file that is being written was left by a process that died

Tokenise = Callable[[Key], Tokens]
Segments = Mapping[str, Segment]


def read(folder: Path) -> Segments:
    """Map the segments of a folder into memory."""
    names = [path.name for path in paths(folder) if NAME.fullmatch(path.name)]
    segments = ((name, opened(folder / name)) for name in sorted(names))
    return {name: segment for name, segment in segments if segment}


def paths(folder: Path) -> list[Path]:
    with suppress(OSError):
        return list(folder.iterdir())
    return []


def updated(
    folder: Path, old: Segments, keys: Sequence[Key], tokenise: Tokenise
) -> Iterator[Segments]:
    """Index what is not indexed yet; yield all segments after each one that was made.

    A segment is named by its files and their times, so that processes share those that are alike.
    Files that did not change are not read again.
    """
    make_private(folder)
    groups = {name_of(group): group for group in grouped(keys)}
    kept: dict[Key, Tokens] = {}
    if groups.keys() - old.keys():
        kept = {key: tokens for segment in old.values() for key, tokens in segment.texts()}
    new: dict[str, Segment] = {}
    for name, group in groups.items():
        segment = old.get(name) or opened(folder / name)
        if segment is None:
            array = packed([(key, kept[key] if key in kept else tokenise(key)) for key in group])
            write(folder / name, array)
            segment = opened(folder / name) or Segment(array)
        new[name] = segment
        yield {**old, **new}
    remove_others(folder, new)
    yield new


def grouped(keys: Sequence[Key]) -> list[list[Key]]:
    """Divide files by their paths, so that each stays in its group when others change."""
    total, count = sum(size for _, size, _ in keys), 1
    while count < MAX_SEGMENTS and total > count * SEGMENT_BYTES:
        count *= 2
    groups: list[list[Key]] = [[] for _ in range(count)]
    for key in keys:
        groups[zlib.crc32(key[0].encode("utf-8", "surrogatepass")) % count].append(key)
    return [group for group in groups if group]


def name_of(group: Sequence[Key]) -> str:
    return f"{hashlib.sha256(json.dumps(group).encode()).hexdigest()[:32]}.npy"


def remove_others(folder: Path, kept: Segments) -> None:
    """Remove the segments of files as they were, and what processes that died left."""
    for path in paths(folder):
        with suppress(OSError):
            part = path.suffix == ".part"
            stale = part and time.time() - path.stat().st_mtime > STALE_SECONDS
            if stale or (not part and path.name not in kept):
                path.unlink()
