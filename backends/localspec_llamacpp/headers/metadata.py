"""The metadata of a GGUF file: its keys, its tensors, and where its long arrays lie."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from localspec.base.errors import ModelFileError, one_line

UINT32, FLOAT32, STRING, ARRAY, UINT64 = 4, 6, 8, 9, 10
WHOLE = (0, 1, 2, 3, 4, 5, 7, 10, 11)  # kinds of whole numbers, flags among them
FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q"}
FORMATS |= {11: "<q", 12: "<d"}
LENGTH = struct.Struct("<Q").unpack_from  # of a string, which it precedes
LONGEST_LIST = 4096  # numbers; the longest that is of use has one for each layer
LONGEST_TEXT = 1 << 20  # bytes; a longer string is skipped


@dataclass(frozen=True, slots=True)
class FileRange:
    """The range of a file that an array takes."""

    kind: int
    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Value:
    """A number, a text, or an array, of which `place` says where the file has it."""

    kind: int
    number: float = 0
    text: str | None = None  # None as well where it is longer than `LONGEST_TEXT`
    place: FileRange | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    kind: str  # the name of its type
    size: int  # bytes
    offset: int  # after `weights_start`


@dataclass(frozen=True, slots=True)
class Header:
    path: Path
    values: dict[str, Value]
    tensors: tuple[Tensor, ...]
    file_bytes: int
    weights_start: int = 0  # where the tensors of this file begin

    def refuse(self, fault: str) -> NoReturn:
        raise refusal(self.path, fault)

    def text(self, key: str) -> str | None:
        """Read a string; None where there is none, or one longer than `LONGEST_TEXT`."""
        value = self.values.get(key)
        return value.text if value else None

    def number(self, key: str, default: int = 0) -> int:
        """Read a whole number, or the largest of an array of such."""
        value = self.values.get(key)
        if value is None:
            return default
        if value.place is not None:
            return max(self.numbers(key), default=default)
        return int(value.number) if value.kind in WHOLE else default

    def length(self, key: str) -> int:
        """Count the elements of an array."""
        value = self.values.get(key)
        return value.place.count if value and value.place and value.kind == ARRAY else 0

    def numbers(self, key: str) -> list[int]:
        """Read an array of whole numbers; none where there is none, or a longer one."""
        place = self.values[key].place if key in self.values else None
        if place is None or place.kind not in WHOLE or not 0 < place.count <= LONGEST_LIST:
            return []
        with self.path.open("rb") as file:
            file.seek(place.start)
            data = file.read(place.end - place.start)
        numbers = struct.iter_unpack(FORMATS[place.kind], data)
        return [int(number) for (number,) in numbers]


def refusal(path: Path, fault: str) -> ModelFileError:
    """Make an error of a fault of a file."""
    return ModelFileError(f"{path.name} {one_line(fault)}")
