"""A loaded target, and its draft model if it has one."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.core.pairing.vocabulary import Match
from localspec.interfaces.backend import Model


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and its draft model, with the target's tokens for both."""

    target: Model
    draft: Model | None = None  # takes and gives the target's tokens
    match: Match | None = None  # how the draft model's own vocabulary fits
    draft_context: int | None = None  # tokens of a text that it reads at once; None: all
