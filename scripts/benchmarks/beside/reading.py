"""The weights that a row is multiplied by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localspec_llamacpp.headers import rounding
from localspec_llamacpp.headers.footprint import described
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.parts import whole

LEAST_SHARE = 0.005  # of the bytes, below which a type is not told


@dataclass(frozen=True, slots=True)
class Multiplied:
    """The weights that a row is multiplied by: of experts those that are active."""

    count: float
    bytes_by_type: Mapping[str, float]

    @property
    def bytes(self) -> float:
        return sum(self.bytes_by_type.values())

    def __str__(self) -> str:
        shares = {kind: size / self.bytes for kind, size in self.bytes_by_type.items()}
        told = sorted(shares.items(), key=lambda item: item[1], reverse=True)
        return ", ".join(f"{kind} {share:.0%}" for kind, share in told if share >= LEAST_SHARE)


def multiplied(path: Path) -> Multiplied:
    """Count the weights of a file by its header."""
    header = whole(read(path))
    footprint = described(header)
    active = footprint.active_experts / footprint.experts if footprint.experts else 1.0
    count, sizes = 0.0, dict[str, float]()
    for tensor, share in rounding.multiplied(header.tensors, active):
        count += share * math.prod(tensor.shape)
        sizes[tensor.kind] = sizes.get(tensor.kind, 0.0) + share * tensor.size
    return Multiplied(count, sizes)
