"""The layers of a head: what they are given to read, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import mlx.core as mx

from localspec_mlx.heads.tap import Tap
from localspec_mlx.slots import CacheSlots

BOUNDLESS = 1 << 20  # tokens that a reader without a limit drafts at once


class Part(NamedTuple):
    """Tokens of one text for a head to read, and the states before each of them."""

    tokens: mx.array
    states: mx.array
    held: int  # tokens that its target holds of the text
    rejected: mx.array | None = None  # of these, if the device alone knows; of those to read, too

    @property
    def newest(self) -> int | mx.array:
        """The place of the newest token among those to read."""
        last = len(self.tokens) - 1
        return last - self.rejected if last and self.rejected is not None else last


class Read(NamedTuple):
    """The last position of each text that was read."""

    states: mx.array  # the head's own, in place of its target's for the next token: [texts, ...]
    outputs: mx.array  # its logits are computed from these: [texts, ...]


class Reader(Protocol):
    """The layers of a head, and the keys that they look at."""

    slots: CacheSlots  # with the keys it keeps itself, if it does
    limit: int  # tokens that it can draft at once

    def take_in(self, parts: Mapping[int, Part]) -> None:
        """Read tokens by slot."""

    def read(self, parts: Mapping[int, Part]) -> Read:
        """Read tokens by slot, to draft on from there."""

    def logits(self, outputs: mx.array) -> mx.array:
        """Compute logits [texts, vocabulary]."""


@dataclass(frozen=True, slots=True)
class LoadedHead:
    """A head, and what it reads of its target."""

    proposer: str
    tap: Tap
    reader: Callable[[CacheSlots, int], Reader]  # by its target's slots and their number
    ahead: bool = True  # it may read on before it is settled what its target keeps
