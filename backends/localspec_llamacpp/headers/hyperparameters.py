"""A model's own numbers: the metadata keys that begin with its architecture's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from localspec_llamacpp.headers.metadata import ARRAY, BOOL, FLOAT32, INT32, UINT32, Header

MOST_LAYERS = 512  # the engine's arrays are this long
REDO = "convert it again, or choose another file"


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    header: Header
    architecture: str

    def has(self, key: str) -> bool:
        return self.name(key) in self.header.values

    def name(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def number(self, key: str, default: int = 0) -> int:
        return self.header.number(self.name(key), default)

    def flag(self, key: str, default: bool) -> bool:
        found = self.header.find(self.name(key), BOOL)
        return bool(found.number) if found else default

    def text(self, key: str) -> str | None:
        return self.header.text(self.name(key))

    def real(self, key: str) -> float | None:
        found = self.header.find(self.name(key), FLOAT32)
        return found.number if found else None

    def listed(self, key: str) -> tuple[int, ...] | None:
        """A short array of whole numbers; None where there is a single one, or nothing."""
        found = self.header.find(self.name(key), UINT32, ARRAY)
        if found is None or found.kind != ARRAY:
            return None
        numbers = self.header.numbers(self.name(key), MOST_LAYERS, UINT32, INT32, BOOL)
        if numbers.size and int(numbers.min()) < 0:
            self.refuse(key, int(numbers.min()), "it must not be negative")
        return tuple(int(number) for number in numbers)

    def per_layer(self, key: str, count: int, default: int = 0) -> tuple[int, ...]:
        """One number a layer: the file gives one for all, or an array."""
        listed = self.listed(key)
        if listed is None:
            return (self.number(key, default),) * count
        if len(listed) != count:
            self.refuse(key, f"for {len(listed)} layers", f"the model has {count}")
        return listed

    def require(self, holds: bool, key: str, value: object, wanted: str) -> None:
        if not holds:
            self.refuse(key, value, wanted)

    def refuse(self, key: str, value: object, wanted: str) -> NoReturn:
        self.header.refuse(f"has {self.name(key)} {value}, but {wanted}: {REDO}")
