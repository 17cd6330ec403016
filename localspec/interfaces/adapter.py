"""LoRA adapters: files beside a model's weights, and the scales that a text is computed with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from localspec.base.errors import UsageError

MAX_SCALE = 100.0  # either way; adapters are trained for 1

# The numbers of adapters with their scales, in order and without those of 0. Texts with equal ones
# may share batches and prefixes.
Scales = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter for the weights of a model.

    path: its file (GGUF), or its folder (MLX)
    scale: of what it changes, where a request names none
    """

    path: Path
    scale: float = 1.0

    def __post_init__(self) -> None:
        check_scale(f"the scale of {self.path.name}", self.scale)

    def __str__(self) -> str:
        """Write it as people type it."""
        return f"{self.path}" if self.scale == 1 else f"{self.path}:{self.scale:g}"


def check_scale(name: str, scale: object) -> None:
    """Refuse a scale that is no number, or too large to be meant."""
    number = math.nan if isinstance(scale, bool) or not isinstance(scale, int | float) else scale
    if not -MAX_SCALE <= number <= MAX_SCALE:
        most = f"{MAX_SCALE:g}"
        raise UsageError(f"{name} is {scale!r}; it must be a number from -{most} to {most}")
