"""The metadata of a GGUF file: its keys, its tensors, and where its long arrays lie."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelFileError

UINT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 2, 4, 5, 6, 7, 8, 9, 10
KINDS = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64"]
KINDS += ["i64", "f64"]
FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q"}
FORMATS |= {11: "<q", 12: "<d"}
LENGTH = struct.Struct("<Q").unpack_from  # of a string, which it precedes
LONGEST_LINE = 400  # letters of a message
LONGEST_ARRAY = 64 << 20  # bytes; the texts of 262,144 tokens take 5 million
LONGEST_TEXT = 1 << 20  # bytes; where a longer string lies is kept instead


@dataclass(frozen=True, slots=True)
class Place:
    """Where the elements of an array, or the bytes of a long string, lie in the file."""

    kind: int
    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Value:
    """A number, a text, or the place of something longer; `kind` says which."""

    kind: int
    number: float = 0
    text: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    kind: int
    size: int  # bytes


@dataclass(frozen=True, slots=True)
class Header:
    path: Path
    values: dict[str, Value]
    tensors: tuple[Tensor, ...]
    file_bytes: int

    def refuse(self, what: str) -> NoReturn:
        raise refusal(self.path, what)

    def find(self, key: str, *kinds: int) -> Value | None:
        """The value of a key, which must be of one of these kinds if it is there."""
        found = self.values.get(key)
        if found is not None and found.kind not in kinds:
            self.refuse(f"has {key} as {KINDS[found.kind]}, not {either(kinds)}: convert it again")
        return found

    def text(self, key: str) -> str | None:
        found = self.find(key, STRING)
        if found and found.place:
            size = found.place.count
            self.refuse(f"has a {key} of {size:,} bytes; at most {LONGEST_TEXT:,} are read")
        return found.text if found else None

    def number(self, key: str, default: int = 0) -> int:
        """An unsigned 32-bit value: the only kind llama.cpp takes for a count."""
        found = self.find(key, UINT32)
        return int(found.number) if found else default

    def place(self, key: str, *kinds: int) -> Place | None:
        """Where an array lies, whose elements must be of one of these kinds."""
        found = self.find(key, ARRAY)
        place = found.place if found else None
        if place and place.kind not in kinds:
            self.refuse(f"has {key} as an array of {KINDS[place.kind]}, not of {either(kinds)}")
        return place

    def numbers(self, key: str, most: int, *kinds: int) -> NDArray[np.generic]:
        """Read an array of numbers from the file; empty where there is none."""
        place = self.place(key, *kinds)
        if place is None:
            return np.zeros(0, np.int32)
        return np.frombuffer(self._bytes(key, most, place), FORMATS[place.kind])

    def texts(self, key: str, most: int) -> list[bytes]:
        """Read an array of strings from the file; empty where there is none."""
        place = self.place(key, STRING)
        if place is None:
            return []
        data = self._bytes(key, most, place)
        found, at = [], 0
        for _ in range(place.count):
            end = at + 8 + LENGTH(data, at)[0]
            found.append(data[at + 8 : end])
            at = end
        return found

    def _bytes(self, key: str, most: int, place: Place) -> bytes:
        if place.count > most:
            self.refuse(f"has {place.count:,} values of {key}; at most {most:,} are read")
        size = place.end - place.start
        if size > LONGEST_ARRAY:
            self.refuse(f"has {size:,} bytes of {key}; at most {LONGEST_ARRAY:,} are read")
        with self.path.open("rb") as file:
            file.seek(place.start)
            data = file.read(size)
        if len(data) < size:
            self.refuse(f"shrank while it was read: {len(data):,} of {size:,} bytes were left")
        return data


def refusal(path: Path, what: str) -> ModelFileError:
    """An error of one line, whatever the file puts into its names."""
    line = "".join(letter if letter.isprintable() else "?" for letter in what)
    if len(line) > LONGEST_LINE:
        line = f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"
    return ModelFileError(f"{path.name} {line}")


def either(kinds: tuple[int, ...]) -> str:
    return " or ".join(KINDS[kind] for kind in kinds)
