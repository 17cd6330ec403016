"""The safetensors files of a model folder: their headers, never the weights.

MLX believes a header; so every number in it is held against the bytes that are there.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import BinaryIO, NoReturn

from localspec_mlx.folder.files import Object, parse, refuse
from localspec_mlx.folder.lookalikes import AGAIN, not_safetensors, refuse_without

PATTERN = "model*.safetensors"  # what mlx-lm reads, whatever an index lists
INDEX = "model.safetensors.index.json"
NUMBERED = re.compile(r"(?P<stem>.+)-(?P<part>\d{5,6})-of-(?P<parts>\d{5,6})\.safetensors")
LENGTH = struct.Struct("<Q")  # of the header, which it precedes
MOST_HEADER = 16 << 20  # bytes; 200,000 tensors in 60 files have 0.5 million in each
MOST_INDEX = 32 << 20  # bytes; that of 200,000 tensors has 20 million
MOST_TENSORS = 1 << 19  # the most seen are about 210,000
MOST_AXES = 16
SEEN = 64  # bytes by which other formats are known
# As MLX reads them; others are refused by name.
BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E8M0": 1, "U16": 2, "I16": 2, "F16": 2}
BYTES |= {"BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "C64": 8}


@dataclass(frozen=True, slots=True)
class Shards:
    paths: tuple[Path, ...]
    file_bytes: int
    sizes: dict[str, int]  # bytes of each tensor

    @property
    def weight_bytes(self) -> int:
        return sum(self.sizes.values())


@dataclass(frozen=True, slots=True)
class Span:
    """The place of a tensor among the bytes that follow the header."""

    start: int
    end: int
    name: str


def read(folder: Path, most: int = MOST_TENSORS, pattern: str = PATTERN) -> Shards:
    """Read the headers of all the files that mlx-lm would load, or those of another pattern."""
    paths = tuple(sorted(folder.glob(pattern)))
    names = [path.name for path in paths]
    check_numbers(folder, names)
    check_index(folder, names)
    if not paths:
        refuse_without(folder, pattern)
    sizes: dict[str, int] = {}
    holders: dict[str, Path] = {}
    file_bytes = 0
    for path in paths:
        tensors, size = read_shard(path)
        file_bytes += size
        for name in tensors.keys() & holders.keys():
            twice = f"holds {name}, and so does {holders[name].name}"
            refuse(path, f"{twice}: remove the one that does not belong here")
        holders |= dict.fromkeys(tensors, path)
        sizes |= tensors
        if len(sizes) > most:
            total = f"{len(sizes):,} tensors; at most {most:,} are read"
            broken(path, f"with it the folder has {total}")
    return Shards(paths, file_bytes, sizes)


def broken(path: Path, fault: str) -> NoReturn:
    refuse(path, f"is broken: {fault}: {AGAIN}")


def check_numbers(folder: Path, names: list[str]) -> None:
    """Require all files where they are numbered."""
    numbered: dict[tuple[str, str], set[int]] = {}
    for match in filter(None, map(NUMBERED.fullmatch, names)):
        numbered.setdefault((match["stem"], match["parts"]), set()).add(int(match["part"]))
    for (stem, parts), numbers in numbered.items():
        lacking = (number for number in range(1, int(parts) + 1) if number not in numbers)
        if number := next(lacking, 0):
            name = f"{stem}-{number:0{len(parts)}}-of-{parts}.safetensors"
            refuse(folder, f"is not whole: {name} is missing: {AGAIN}")


def check_index(folder: Path, names: list[str]) -> None:
    """Require all that an index lists; the files may do without one."""
    path = folder / INDEX
    if not path.exists():
        return
    with opened(path) as (file, size):
        if size > MOST_INDEX:
            broken(path, f"it has {size:,} bytes; at most {MOST_INDEX:,} are read")
        places = decoded(path, file.read(size)).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        broken(path, "it has no weight_map from tensors to files")
    if lacking := sorted(set(places.values()).difference(names)):
        name = lacking[0]
        fault = "is missing" if fnmatchcase(name, PATTERN) else f"is not one of {PATTERN}"
        refuse(path, f"lists {name}, which {fault}: {AGAIN}")


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file and map its bytes; any failure while it is open names it."""
    try:
        if not path.is_file():  # a link to nothing, or what would be read forever
            refuse(path, f"is missing, or not a file: {AGAIN}")
        with path.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except OSError as error:
        refuse(path, f"cannot be read: {error.strerror or error}")


def decoded(path: Path, data: bytes) -> Object:
    try:
        return parse(path, data.decode())
    except UnicodeDecodeError as error:
        broken(path, f"it is not UTF-8 at byte {error.start:,} of {len(data):,}")


def read_shard(path: Path) -> tuple[dict[str, int], int]:
    """Read the bytes of each tensor of a file, and of the file."""
    with opened(path) as (file, size):
        length = header_bytes(path, file.read(SEEN), size)
        file.seek(LENGTH.size)
        tensors = spans(path, dict(decoded(path, file.read(length))))
    end = 0
    for tensor in tensors:
        if tensor.start != end:
            broken(path, f"tensor {tensor.name} starts at byte {tensor.start:,}, not at {end:,}")
        end = tensor.end
    following = size - LENGTH.size - length
    if end != following:
        broken(path, f"its tensors have {end:,} bytes, and {following:,} follow its header")
    return {tensor.name: tensor.end - tensor.start for tensor in tensors}, size


def header_bytes(path: Path, start: bytes, size: int) -> int:
    """Read the length of a header, by the first bytes of its file."""
    if start[LENGTH.size : LENGTH.size + 1] != b"{" or start.startswith(b"GGUF"):
        refuse(path, f"is {not_safetensors(start, size)}")
    length: int = LENGTH.unpack_from(start)[0]
    if LENGTH.size + length > size:
        promised = f"{LENGTH.size + length:,} bytes or more"
        broken(path, f"its header promises {promised}, the file has {size:,}")
    if length > MOST_HEADER:
        broken(path, f"its header has {length:,} bytes; at most {MOST_HEADER:,} are read")
    return length


def spans(path: Path, header: dict[str, object]) -> list[Span]:
    """List the tensors of a file, in the order in which they lie."""
    metadata = header.pop("__metadata__", None) or {}  # MLX itself writes null where it has none
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        broken(path, "its __metadata__ is not from text to text")
    tensors = [span(path, name, entry) for name, entry in header.items()]
    return sorted(tensors, key=lambda tensor: (tensor.start, tensor.end))


def span(path: Path, name: str, entry: object) -> Span:
    fields = entry if isinstance(entry, dict) else {}
    kind, shape, offsets = (fields.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(kind, str) or not isinstance(shape, list) or not isinstance(offsets, list):
        broken(path, f"tensor {name} lacks a dtype, a shape or data_offsets")
    if kind not in BYTES:
        fault = f"has tensor {name} of type {kind}, which MLX does not read"
        refuse(path, f"{fault}: choose another conversion")
    if len(shape) > MOST_AXES or not all(type(n) is int and 0 <= n < 1 << 31 for n in shape):
        broken(path, f"tensor {name} has the shape {str(shape)[:100]}")
    if len(offsets) != 2 or not all(type(n) is int and 0 <= n < 1 << 63 for n in offsets):
        broken(path, f"tensor {name} has the data_offsets {str(offsets)[:100]}")
    size = prod(shape) * BYTES[kind]
    if offsets[1] - offsets[0] != size:
        promised = f"{shape} of {kind} are {size:,} bytes"
        broken(path, f"tensor {name} has {offsets[1] - offsets[0]:,} bytes, but {promised}")
    return Span(offsets[0], offsets[1], name)
