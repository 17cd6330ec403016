"""The small models of the tests, whose heads were trained, and stories for them to go on with."""

from __future__ import annotations

import lzma
import random
from collections.abc import Iterator
from pathlib import Path

from tests.backends.trained import make

FOLDER = Path(make.__file__).parent
FILES = {  # a target and its head
    "mtp": ("one", "one"),
    "mtp chain": ("chain", "chain"),
    "eagle3": ("trunk", "eagle3"),
    "dflash": ("trunk", "dflash"),
}


def write(kind: str, folder: Path) -> tuple[Path, Path]:
    """Unpack a model and its head, which may be the same file."""
    target, head = (unpacked(name, folder) for name in FILES[kind])
    return target, head


def unpacked(name: str, folder: Path) -> Path:
    path = folder / f"{name}.gguf"
    path.write_bytes(lzma.decompress((FOLDER / f"{path.name}.xz").read_bytes()))
    return path


def stories(seed: int) -> Iterator[str]:
    """Yield beginnings of stories, of 90 to 390 letters."""
    rng = random.Random(seed)
    while True:
        yield make.story(rng)[: rng.randrange(90, 390)]
