"""How the logits of a text are changed before its next token is chosen, for any device to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

NO_IDS = np.empty(0, np.int64)
NO_NUMBERS = np.empty(0, np.float32)


class LogitShift(NamedTuple):
    """A bias, then penalties on the tokens that came before.

    ids, bias: -inf for a token that may not follow; those of a token that is there twice add up
    seen: tokens of the text, each once
    counts: how often each is in the reply; 0: in the prompt alone
    repetition: divides logits of seen tokens that are above 0, and multiplies the others
    presence: is subtracted for tokens of the reply
    frequency: is subtracted for each time that a token is in the reply
    window: how many tokens are seen, the newest; -1: all
    """

    ids: NDArray[np.int64] = NO_IDS
    bias: NDArray[np.float32] = NO_NUMBERS
    seen: NDArray[np.int64] = NO_IDS
    counts: NDArray[np.int64] = NO_IDS
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    window: int = -1

    @property
    def penalises(self) -> bool:
        return self.repetition != 1 or self.presence != 0 or self.frequency != 0


@runtime_checkable
class ShiftingSource(Protocol):
    """A `TokenSource` that may change logits and be foreseen all the same."""

    def shift(self, drafted: Sequence[int] = (), more: int = 0) -> LogitShift | None:
        """Return how logits are changed after `drafted` and `more` tokens; None: they are not.

        Which those `more` are the engine alone knows, and counts them in itself. Bans that depend
        on them are left out. It is asked for only where choices are foreseen.
        """


def shift_of(source: object, drafted: Sequence[int] = (), more: int = 0) -> LogitShift | None:
    return source.shift(drafted, more) if isinstance(source, ShiftingSource) else None
