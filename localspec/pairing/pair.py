"""A target and what may guess for it, loaded."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.backend import Model
from localspec.pairing.vocabulary import Match


@dataclass(frozen=True, slots=True)
class Pair:
    target: Model
    draft: Model | None = None  # speaks the target's tokens
    match: Match | None = None  # how the draft model's own vocabulary fits
