"""A GGUF file to convert: each value is held against the kind it should be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from localspec_llamacpp.headers.header import read as read_header
from localspec_llamacpp.headers.metadata import (
    ARRAY,
    FORMATS,
    LENGTH,
    STRING,
    FileRange,
    Header,
    Tensor,
)

BOOL, FLOATS = 7, (6, 12)
LONGEST_ARRAY = 64 << 20  # bytes; the texts of 262,144 tokens take 5 million


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A matrix of the file, whose type can be unpacked row by row."""

    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]  # rows before columns
    start: int
    row_bytes: int


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of a file, read strictly: a value of another kind than asked for is refused."""

    header: Header
    tensors: Mapping[str, GgufTensor]

    def refuse(self, what: str) -> NoReturn:
        self.header.refuse(what)

    def has(self, key: str) -> bool:
        return key in self.header.values

    def integer(self, key: str, default: int | None = None) -> int:
        """Read a whole number; one without a default must be there."""
        if not self.has(key):
            return default if default is not None else self.refuse(f"has no {key}")
        value = self.header.values[key]
        if value.kind in (*FLOATS, BOOL, STRING, ARRAY):
            self.refuse(f"has a {key} that is not a whole number")
        return int(value.number)

    def real(self, key: str, default: float | None = None) -> float:
        """Read a floating-point number; one without a default must be there."""
        if not self.has(key):
            return default if default is not None else self.refuse(f"has no {key}")
        value = self.header.values[key]
        if value.kind not in FLOATS or not math.isfinite(value.number):
            self.refuse(f"has a {key} that is not a finite floating-point number")
        return value.number

    def flag(self, key: str, default: bool) -> bool:
        if not self.has(key):
            return default
        value = self.header.values[key]
        if value.kind != BOOL:
            self.refuse(f"has a {key} that is neither true nor false")
        return bool(value.number)

    def text(self, key: str) -> str | None:
        """Read a text, which must be UTF-8; None where there is none."""
        if not self.has(key):
            return None
        value = self.header.values[key]
        if value.kind != STRING or value.place is None:
            self.refuse(f"has a {key} that is not a text")
        return self._decoded(key, [self._bytes(key, value.place)])[0]

    def number_list(self, key: str) -> list[float]:
        """Read an array of numbers; empty where there is none."""
        place = self._array(key)
        if place is None:
            return []
        if place.kind not in FORMATS:
            self.refuse(f"has a {key} that is not an array of numbers")
        found: list[float] = np.frombuffer(self._bytes(key, place), FORMATS[place.kind]).tolist()
        return found

    def text_list(self, key: str) -> list[str]:
        """Read an array of texts; empty where there is none."""
        place = self._array(key)
        if place is None:
            return []
        if place.kind != STRING:
            self.refuse(f"has a {key} that is not an array of texts")
        data, at, found = self._bytes(key, place), 0, []
        for _ in range(place.count):
            end = at + 8 + LENGTH(data, at)[0]
            found.append(data[at + 8 : end])
            at = end
        return self._decoded(key, found)

    def read(self, start: int, size: int) -> NDArray[np.uint8]:
        """Read bytes; not by `np.fromfile`, which turns Ctrl-C into a TypeError now and then."""
        found = np.empty(size, np.uint8)
        try:
            with self.header.path.open("rb") as source:
                source.seek(start)
                found = found[: source.readinto(found.data)]
        except OSError as error:
            self.refuse(f"cannot be read any more: {error.strerror or error}")
        if len(found) < size:
            self.refuse(f"shrank while it was read: {len(found):,} of {size:,} bytes were left")
        return found

    def _decoded(self, key: str, raw: list[bytes]) -> list[str]:
        try:
            return [text.decode() for text in raw]
        except UnicodeDecodeError as error:
            self.refuse(f"has {error.object!r} in {key}, which is not UTF-8")

    def _array(self, key: str) -> FileRange | None:
        if not self.has(key):
            return None
        value = self.header.values[key]
        if value.kind != ARRAY:
            self.refuse(f"has a {key} that is not an array")
        return value.place

    def _bytes(self, key: str, place: FileRange) -> bytes:
        size = place.end - place.start
        if size > LONGEST_ARRAY:
            self.refuse(f"has {size:,} bytes of {key}; at most {LONGEST_ARRAY:,} are read")
        return self.read(place.start, size).tobytes()


def read(path: Path) -> GgufFile:
    """Read everything but the weights."""
    header = read_header(path)
    tensors = {tensor.name: readable(header, tensor) for tensor in header.tensors}
    return GgufFile(header, tensors)


def readable(header: Header, tensor: Tensor) -> GgufTensor:
    """Refuse a tensor whose rows cannot be found or unpacked."""
    kind = GGMLQuantizationType.__members__.get(tensor.kind)
    if kind is None:
        header.refuse(f"has a tensor {tensor.name} of {tensor.kind}, which cannot be unpacked")
    columns, *rows = tensor.shape
    block, _ = GGML_QUANT_SIZES[kind]
    if not math.prod(tensor.shape) or columns % block:
        shape = list(tensor.shape[::-1])
        header.refuse(f"has a tensor {tensor.name} of shape {shape} in blocks of {block}")
    start = header.weights_start + tensor.offset
    return GgufTensor(tensor.name, kind, tensor.shape[::-1], start, tensor.size // math.prod(rows))
