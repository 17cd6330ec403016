"""The weights that a row is multiplied by, and how fast this machine reads."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from localspec_llamacpp.headers.footprint import described
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.parts import whole
from localspec_llamacpp.headers.rounding import matrices

READ_BYTES, READINGS = 256 << 20, 9  # more than caches hold
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
    for tensor in matrices(header.tensors):
        share = active if len(tensor.shape) > 2 else 1.0
        count += share * math.prod(tensor.shape)
        sizes[tensor.kind] = sizes.get(tensor.kind, 0.0) + share * tensor.size
    return Multiplied(count, sizes)


def read_speed(threads: int) -> float:
    """Return the most bytes a second that so many threads read of a large array."""
    pieces = np.array_split(np.ones(READ_BYTES // 4, np.float32), threads)
    fastest = math.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(READINGS):
            begun = time.perf_counter()
            list(pool.map(np.max, pieces))  # which computes less than a sum
            fastest = min(fastest, time.perf_counter() - begun)
    return READ_BYTES / fastest
