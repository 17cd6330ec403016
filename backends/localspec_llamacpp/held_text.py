"""The text that a trunk holds of a slot, and the hidden states that its head has not read yet."""

from __future__ import annotations

import numpy as np

from localspec.backend import MAX_HEAD_LAG
from localspec.tokens import NONE, Tokens
from localspec_llamacpp.bindings.batch import Hidden


class HeldText:
    """The tokens that the trunk holds of one text, and how far the head has read them."""

    __slots__ = ("_end", "_rows", "lost", "read", "tokens")

    def __init__(
        self, before: Hidden | None, tokens: Tokens = NONE, read: int = 0, *, lost: bool = False
    ) -> None:
        self.before = before
        self.tokens = tokens
        self.read = read
        self.lost = lost  # the trunk holds more than is known here: nothing can be drafted

    @property
    def before(self) -> Hidden | None:
        """The states before the tokens that are not read, and before the next one."""
        return None if self._rows is None else self._rows[: self._end]

    @before.setter
    def before(self, states: Hidden | None) -> None:
        self._rows, self._end = states, 0 if states is None else len(states)

    def append(self, tokens: Tokens, states: Hidden) -> None:
        """Hold more tokens, with the state at each of them."""
        assert self._rows is not None
        end = self._end + len(states)
        if end > len(self._rows):  # there is room behind those that were put in here alone
            grown = np.empty((end + MAX_HEAD_LAG, self._rows.shape[1]), np.float32)
            grown[: self._end] = self._rows[: self._end]
            self._rows = grown
        self._rows[self._end : end] = states
        self._end = end
        self.tokens = np.concatenate((self.tokens, tokens))

    def advance(self, count: int) -> None:
        """Count so many more tokens as read."""
        assert self.before is not None
        self.read += count
        self.before = self.before[count:]

    def forget_states(self) -> None:
        """Free the states that were read: a view keeps all of them."""
        if self.before is not None:
            self.before = self.before.copy()

    def copied(self) -> HeldText:
        before = None if self.before is None else self.before.copy()
        return HeldText(before, self.tokens, self.read, lost=self.lost)
