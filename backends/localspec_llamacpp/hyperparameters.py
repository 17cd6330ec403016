"""A model's own numbers: the metadata keys that begin with its architecture's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from localspec_llamacpp.header import ARRAY, BOOL, FLOAT32, INT32, STRING, UINT32, Header

MOST_LAYERS = 512  # the engine's arrays are this long
REDO = "convert it again, or choose another file"


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    header: Header
    architecture: str

    def has(self, key: str) -> bool:
        return f"{self.architecture}.{key}" in self.header.values

    def number(self, key: str, default: int = 0) -> int:
        return self.header.number(f"{self.architecture}.{key}", default)

    def flag(self, key: str, default: bool) -> bool:
        found = self.header.find(f"{self.architecture}.{key}", BOOL)
        return bool(found.value) if found else default

    def text(self, key: str) -> str | None:
        return self.header.text(f"{self.architecture}.{key}")

    def per_layer(self, key: str, count: int, default: int = 0) -> tuple[int, ...]:
        """One number a layer: the file gives one for all, or an array."""
        name = f"{self.architecture}.{key}"
        if not self.is_array(key):
            return (self.header.number(name, default),) * count
        listed = self.listed(key)
        if len(listed) != count:
            self.refuse(key, f"for {len(listed)} layers", f"the model has {count}")
        return listed

    def is_array(self, key: str) -> bool:
        found = self.header.find(f"{self.architecture}.{key}", UINT32, ARRAY)
        return found is not None and found.kind == ARRAY

    def listed(self, key: str) -> tuple[int, ...]:
        """A short array of whole numbers; empty where there is none."""
        name = f"{self.architecture}.{key}"
        if not self.is_array(key):
            return ()
        numbers = self.header.numbers(name, MOST_LAYERS, UINT32, INT32, BOOL)
        if numbers.size and int(numbers.min()) < 0:
            self.refuse(key, str(int(numbers.min())), "it must not be negative")
        return tuple(int(number) for number in numbers)

    def reals(self, ending: str) -> dict[str, float]:
        """All scalar floats of the architecture whose key ends so."""
        found: dict[str, float] = {}
        for name, value in self.header.values.items():
            if value.kind == FLOAT32 and name.startswith(self.architecture + "."):
                if name.endswith(ending):
                    found[name.removeprefix(self.architecture + ".")] = np.float64(value.value)
        return found

    def require(self, holds: bool, key: str, value: object, wanted: str) -> None:
        if not holds:
            self.refuse(key, str(value), wanted)

    def refuse(self, key: str, value: str, wanted: str) -> NoReturn:
        self.header.refuse(f"has {self.architecture}.{key} {value}, but {wanted}: {REDO}")
