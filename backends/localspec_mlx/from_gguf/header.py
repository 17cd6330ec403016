"""Read the header of a GGUF file: where its weights lie, never the weights.

No size is believed before it is compared with the bytes that are there, so a hostile file costs
one error, and neither memory nor time.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from localspec.errors import ModelFileError
from localspec_mlx.from_gguf.file import (
    ARRAY,
    FORMATS,
    LENGTH,
    STRING,
    GgufFile,
    Place,
    Tensor,
)

UINT32, UINT64 = 4, 10
SCALARS = {kind: struct.Struct(form) for kind, form in FORMATS.items()}
LEAST_BYTES = 24  # magic, version and two counts
MOST_KEYS, MOST_TENSORS, MOST_TEXTS = 16_384, 65_536, 4_194_304
LONGEST_NAME, LONGEST_TEXT = 1024, 1 << 20  # bytes
KINDS = frozenset(kind.value for kind in GGML_QUANT_SIZES)


@dataclass(frozen=True, slots=True)
class Record:
    """What is said of a tensor before it is known where tensors begin."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int


def read(path: Path) -> GgufFile:
    """Read everything but the weights."""
    try:
        if not path.is_file():
            what = "is not a regular file" if path.exists() else "does not exist"
            raise ModelFileError(f"{path} {what}: give the path of a .gguf file")
        with path.open("rb") as source:
            start, size = source.read(4), source.seek(0, 2)
            if start != b"GGUF" or size < LEAST_BYTES:
                raise ModelFileError(
                    f"{path.name} is not a GGUF file: it has {size:,} bytes and starts with "
                    f"{start!r}: give the path of a .gguf file"
                )
            with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return Walk(GgufFile(path), data).whole()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from None


class Walk:
    """One way through a header, from front to back."""

    def __init__(self, file: GgufFile, data: mmap.mmap) -> None:
        self._file = file
        self._data = data
        self._at = 4
        self._texts = MOST_TEXTS

    def whole(self) -> GgufFile:
        version = self._integer(UINT32)
        if version not in (2, 3):
            self._broken(f"is GGUF version {version}; versions 2 and 3, little-endian, are read")
        tensors = self._count("tensors", MOST_TENSORS, 24)
        for _ in range(self._count("keys", MOST_KEYS, 13)):
            self._pair()
        self._place([self._record() for _ in range(tensors)])
        return self._file

    def _broken(self, what: str) -> NoReturn:
        self._file.refuse(f"{what}: download it again")

    def _step(self, size: int) -> int:
        """Go on by so many bytes; return where they begin."""
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            self._broken(f"is cut short: it has {len(self._data):,} of {self._at:,} bytes")
        return start

    def _scalar(self, kind: int) -> float:
        form = SCALARS[kind]
        value: float = form.unpack_from(self._data, self._step(form.size))[0]
        return value

    def _integer(self, kind: int) -> int:
        return int(self._scalar(kind))

    def _count(self, what: str, most: int, least_bytes: int) -> int:
        count, room = self._integer(UINT64), (len(self._data) - self._at) // least_bytes
        if count > min(most, room):
            self._broken(f"promises {count:,} {what}: it has room for {room:,}, {most:,} are read")
        return count

    def _text(self, what: str, most: int) -> str:
        size = self._integer(UINT64)
        if size > most:
            self._broken(f"has a {what} of {size:,} bytes; at most {most:,} are read")
        start = self._step(size)
        try:
            return self._data[start : self._at].decode()
        except UnicodeDecodeError as error:
            self._broken(f"has a {what} that is not UTF-8 at byte {error.start} of {size:,}")

    def _pair(self) -> None:
        key = self._text("key", LONGEST_NAME)
        if self._file.has(key):
            self._broken(f"has the key {key} twice")
        kind = self._integer(UINT32)
        if kind == STRING:
            self._file.strings[key] = self._text(key, LONGEST_TEXT)
        elif kind == ARRAY:
            self._file.arrays[key] = self._array(key)
        elif kind in SCALARS:
            self._file.numbers[key] = kind, self._scalar(kind)
        else:
            self._broken(f"has a {key} of kind {kind}; kinds 0 to 12 exist")

    def _array(self, key: str) -> Place:
        kind, count = self._integer(UINT32), self._integer(UINT64)
        start = self._at
        if kind in SCALARS:
            self._step(SCALARS[kind].size * count)
        elif kind == STRING:
            self._skip_texts(key, count)
        else:
            self._broken(f"has a {key} that is an array of kind {kind}, which is not read")
        return Place(kind, count, start, self._at)

    def _skip_texts(self, key: str, count: int) -> None:
        self._texts -= count
        if self._texts < 0:
            self._broken(f"has more than {MOST_TEXTS:,} texts, at {key}")
        data, end = self._data, self._at
        try:
            for _ in range(count):
                end += 8 + LENGTH(data, end)[0]
        except (struct.error, OverflowError):
            end += 8
        self._step(end - self._at)

    def _record(self) -> Record:
        name = self._text("tensor name", LONGEST_NAME)
        axes = self._integer(UINT32)
        if not 1 <= axes <= 4:
            self._broken(f"has a tensor {name} of {axes} dimensions; 1 to 4 are read")
        shape = tuple(self._integer(UINT64) for _ in range(axes))
        kind = self._integer(UINT32)
        if kind not in KINDS:
            self._file.refuse(f"has a tensor {name} of type {kind}, which is not known")
        return Record(name, shape[::-1], GGMLQuantizationType(kind), self._integer(UINT64))

    def _place(self, records: list[Record]) -> None:
        alignment = self._file.integer("general.alignment", 32)
        if alignment < 1 or alignment & (alignment - 1):
            self._broken(f"aligns its weights to {alignment} bytes, which is no power of two")
        base = -(-self._at // alignment) * alignment
        for record in records:
            name, shape = record.name, record.shape
            block, size = GGML_QUANT_SIZES[record.kind]
            if name in self._file.tensors:
                self._broken(f"has the tensor {name} twice")
            if not math.prod(shape) or shape[-1] % block:
                self._broken(f"has a tensor {name} of shape {list(shape)} in blocks of {block}")
            row_bytes, start = shape[-1] // block * size, base + record.offset
            end = start + math.prod(shape[:-1]) * row_bytes
            if end > len(self._data):
                self._broken(f"is cut short: {name} ends at {end:,} of {len(self._data):,} bytes")
            self._file.tensors[name] = Tensor(name, record.kind, shape, start, row_bytes)
