"""The safetensors files of a model folder: their headers, never the weights.

MLX believes a header; safetensors holds every number in it against the bytes that are there.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any, NoReturn

from safetensors import SafetensorError, safe_open

from localspec_mlx.folder.config import MAX_AXIS
from localspec_mlx.folder.files import INDEX, read_object, refuse
from localspec_mlx.folder.lookalikes import AGAIN, not_safetensors, refuse_without

PATTERN = "model*.safetensors"  # what mlx-lm reads, whatever an index lists
NUMBERED = re.compile(r"(?P<stem>.+)-(?P<part>\d{5,6})-of-(?P<parts>\d{5,6})\.safetensors")
LENGTH = struct.Struct("<Q")  # of the header, which it precedes
MOST_HEADER = 16 << 20  # bytes; 200,000 tensors in 60 files have 0.5 million in each
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
    index = read_object(path)
    if index is None:
        return
    places = index.get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        broken(path, "it has no weight_map from tensors to files")
    if lacking := sorted(set(places.values()).difference(names)):
        name = lacking[0]
        fault = "is missing" if fnmatchcase(name, PATTERN) else f"is not one of {PATTERN}"
        refuse(path, f"lists {name}, which {fault}: {AGAIN}")


def read_shard(path: Path) -> tuple[dict[str, int], int]:
    """Read the bytes of each tensor of a file, and of the file."""
    try:
        if not path.is_file():  # a link to nothing, or what would be read forever
            refuse(path, f"is missing, or not a file: {AGAIN}")
        size = path.stat().st_size
        with path.open("rb") as start:
            check_start(path, start.read(SEEN), size)
        with safe_open(path, "numpy") as file:
            names = file.keys()
            return {name: tensor_bytes(path, name, file.get_slice(name)) for name in names}, size
    except SafetensorError as error:
        broken(path, str(error))
    except OSError as error:
        refuse(path, f"cannot be read: {error.strerror or error}")


def check_start(path: Path, start: bytes, size: int) -> None:
    """Refuse other formats, and a header that would take much memory."""
    if start[LENGTH.size : LENGTH.size + 1] != b"{" or start.startswith(b"GGUF"):
        refuse(path, f"is {not_safetensors(start, size)}")
    length: int = LENGTH.unpack_from(start)[0]
    if length > MOST_HEADER:
        broken(path, f"its header has {length:,} bytes; at most {MOST_HEADER:,} are read")


def tensor_bytes(path: Path, name: str, tensor: Any) -> int:
    """Compute the bytes of a tensor, if MLX reads its type and shape."""
    kind: str = tensor.get_dtype()
    shape: list[int] = tensor.get_shape()
    if kind not in BYTES:
        fault = f"has tensor {name} of type {kind}, which MLX does not read"
        refuse(path, f"{fault}: choose another conversion")
    if len(shape) > MOST_AXES or max(shape, default=0) > MAX_AXIS:
        broken(path, f"tensor {name} has the shape {str(shape)[:100]}")
    return prod(shape) * BYTES[kind]
