"""What a GGUF file says of itself, each value held against the kind it should be."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray

from localspec.errors import ModelFileError

BOOL, STRING, ARRAY = 7, 8, 9
FLOATS = (6, 12)
FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"}
FORMATS |= {10: "<Q", 11: "<q", 12: "<d"}
LENGTH = struct.Struct("<Q").unpack_from  # of a text, which it precedes
LONGEST_ARRAY = 64 << 20  # bytes; the texts of 262,144 tokens take 5 million
LONGEST_LINE = 300  # letters of a message


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of an array lie."""

    kind: int
    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    kind: GGMLQuantizationType
    shape: tuple[int, ...]  # rows before columns
    start: int
    row_bytes: int


@dataclass(slots=True)
class GgufFile:
    path: Path
    numbers: dict[str, tuple[int, float]] = field(default_factory=dict)  # kind and value
    strings: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, Place] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)

    def refuse(self, what: str) -> NoReturn:
        """Raise an error of one line, whatever the file puts into its names."""
        line = "".join(letter if letter.isprintable() else "?" for letter in what)
        if len(line) > LONGEST_LINE:
            line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
        raise ModelFileError(f"{self.path.name} {line}")

    def has(self, key: str) -> bool:
        return key in self.numbers or key in self.strings or key in self.arrays

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number; one without a default must be there."""
        if not self.has(key):
            return default if default is not None else self.refuse(f"has no {key}")
        kind, value = self.numbers.get(key, (STRING, 0))
        if kind in (*FLOATS, BOOL, STRING):
            self.refuse(f"has a {key} that is not a whole number")
        return int(value)

    def real(self, key: str, default: float | None = None) -> float:
        """A number with a fraction; one without a default must be there."""
        if not self.has(key):
            return default if default is not None else self.refuse(f"has no {key}")
        kind, value = self.numbers.get(key, (STRING, 0))
        if kind not in FLOATS or not math.isfinite(value):
            self.refuse(f"has a {key} that is not a finite floating-point number")
        return value

    def flag(self, key: str, default: bool) -> bool:
        if not self.has(key):
            return default
        kind, value = self.numbers.get(key, (STRING, 0))
        if kind != BOOL:
            self.refuse(f"has a {key} that is neither true nor false")
        return bool(value)

    def text(self, key: str) -> str | None:
        if self.has(key) and key not in self.strings:
            self.refuse(f"has a {key} that is not a text")
        return self.strings.get(key)

    def number_list(self, key: str) -> list[float]:
        """An array of numbers; empty where there is none."""
        place = self._place(key)
        if place is None:
            return []
        if place.kind not in FORMATS:
            self.refuse(f"has a {key} that is not an array of numbers")
        found: list[float] = np.frombuffer(self._bytes(key, place), FORMATS[place.kind]).tolist()
        return found

    def text_list(self, key: str) -> list[str]:
        """An array of texts; empty where there is none."""
        place = self._place(key)
        if place is None:
            return []
        if place.kind != STRING:
            self.refuse(f"has a {key} that is not an array of texts")
        data, at, found = self._bytes(key, place), 0, []
        for _ in range(place.count):
            end = at + 8 + LENGTH(data, at)[0]
            found.append(data[at + 8 : end])
            at = end
        try:
            return [raw.decode() for raw in found]
        except UnicodeDecodeError as error:
            self.refuse(f"has {error.object!r} in {key}, which is not UTF-8")

    def _place(self, key: str) -> Place | None:
        if self.has(key) and key not in self.arrays:
            self.refuse(f"has a {key} that is not an array")
        return self.arrays.get(key)

    def _bytes(self, key: str, place: Place) -> bytes:
        size = place.end - place.start
        if size > LONGEST_ARRAY:
            self.refuse(f"has {size:,} bytes of {key}; at most {LONGEST_ARRAY:,} are read")
        return self.read(place.start, size).tobytes()

    def read(self, start: int, size: int) -> NDArray[np.uint8]:
        try:
            with self.path.open("rb") as source:
                found = np.fromfile(source, np.uint8, size, offset=start)
        except OSError as error:
            self.refuse(f"cannot be read any more: {error.strerror or error}")
        if len(found) < size:
            self.refuse(f"shrank while it was read: {len(found):,} of {size:,} bytes were left")
        return found
