"""The metadata of a GGUF file: its keys, its tensors and where they lie."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelFileError

UINT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 2, 4, 5, 6, 7, 8, 9, 10
KINDS = [
    "u8",
    "i8",
    "u16",
    "i16",
    "u32",
    "i32",
    "f32",
    "bool",
    "string",
    "array",
    "u64",
    "i64",
    "f64",
]
FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q"}
FORMATS |= {11: "<q", 12: "<d"}
LENGTH = struct.Struct("<Q").unpack_from  # of a string, which it precedes
LONGEST_TEXT = 1 << 20  # bytes; a longer string is located, not kept


@dataclass(frozen=True, slots=True)
class Located:
    """Something too long to keep: where its bytes lie in the file."""

    kind: int  # of the elements
    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Value:
    kind: int
    value: int | float | str | Located


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
        raise ModelFileError(f"{self.path.name} {what}")

    def find(self, key: str, *kinds: int) -> Value | None:
        """The value of a key, which must be of one of these kinds if it is there."""
        found = self.values.get(key)
        if found is not None and found.kind not in kinds:
            wanted = " or ".join(KINDS[kind] for kind in kinds)
            self.refuse(f"has {key} as {KINDS[found.kind]}, not {wanted}: convert the model again")
        return found

    def text(self, key: str) -> str | None:
        found = self.find(key, STRING)
        if found is None or isinstance(found.value, str):
            return found.value if found else None
        size = found.value.end - found.value.start if isinstance(found.value, Located) else 0
        self.refuse(f"has a {key} of {size:,} bytes; at most {LONGEST_TEXT:,} are read")

    def number(self, key: str, default: int = 0) -> int:
        """An unsigned 32-bit value: the only kind llama.cpp takes for a count."""
        found = self.find(key, UINT32)
        return int(found.value) if found and not isinstance(found.value, Located) else default

    def located(self, key: str, *kinds: int) -> Located | None:
        """Where an array lies, which must have elements of one of these kinds."""
        found = self.find(key, ARRAY)
        if found is None or not isinstance(found.value, Located):
            return None
        if found.value.kind not in kinds:
            wanted = " or ".join(KINDS[kind] for kind in kinds)
            self.refuse(f"has {key} as an array of {KINDS[found.value.kind]}, not of {wanted}")
        return found.value

    def numbers(self, key: str, most: int, *kinds: int) -> NDArray[np.generic]:
        """Read an array of numbers from the file; empty where there is none."""
        array = self.located(key, *kinds)
        if array is None:
            return np.zeros(0, np.int32)
        if array.count > most:
            self.refuse(f"has {array.count:,} values of {key}; at most {most:,} are read")
        return np.fromfile(self.path, FORMATS[array.kind], array.count, offset=array.start)

    def texts(self, key: str, most: int) -> list[bytes]:
        """Read an array of strings from the file; empty where there is none."""
        array = self.located(key, STRING)
        if array is None:
            return []
        if array.count > most:
            self.refuse(f"has {array.count:,} values of {key}; at most {most:,} are read")
        with self.path.open("rb") as file:
            file.seek(array.start)
            data = file.read(array.end - array.start)
        found, at = [], 0
        for _ in range(array.count):
            end = at + 8 + LENGTH(data, at)[0]
            found.append(data[at + 8 : end])
            at = end
        return found
