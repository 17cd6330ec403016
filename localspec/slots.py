"""What each slot of a model holds, for texts to go on from."""

from __future__ import annotations

from collections.abc import Mapping

from localspec import prefix
from localspec.backend import Model
from localspec.keeping.keeping import LEAST, Keeping
from localspec.prefix import Place
from localspec.tokens import NONE, Tokens

LOSS = 4  # one in so many tokens of a text may be lost to another, as when a reply is asked anew
RESTS = 128  # tokens that others read while a text lies idle, after which it is put aside


class Slots:
    def __init__(self, model: Model, keeping: Keeping) -> None:
        self._model = model
        self._keeping = keeping
        self._held: list[Tokens] = [NONE] * model.slots  # as far as they are free
        self._free = list(range(model.slots))  # the longest unused first
        self._left = [0] * model.slots  # what had been read when each was left
        self._read = 0
        self._rests = True  # whether it pays to put aside what lies idle

    @property
    def free(self) -> bool:
        """Whether there is one."""
        return bool(self._free)

    def take(self, tokens: Tokens, active: Mapping[int, Tokens]) -> Place:
        """The slot for a text, and where its beginning can be had, beside those in use."""
        held = [active.get(slot, each) for slot, each in enumerate(self._held)]
        place = prefix.choose(held, self._free, tokens)
        self._free.remove(place.slot)
        return place

    def settle(self, place: Place, tokens: Tokens) -> int:
        """Make a slot hold the beginning of a text, from wherever most of it can be had."""
        held = self._held[place.slot]
        if len(held) - place.own > len(held) // LOSS:
            self._keeping.keep(self._model, place.slot, held)
        found = self._keeping.recall(self._model, place, tokens)
        return found or prefix.settle(self._model, place)

    def leave(self, slot: int, held: Tokens) -> None:
        """A slot is free, and keeps what it holds for another to go on from."""
        self._held[slot] = held
        self._left[slot] = self._read
        self._free.append(slot)

    def empty(self, slot: int) -> None:
        self._held[slot] = NONE
        self._model.truncate(slot, 0)

    def read(self, tokens: int) -> None:
        """Others read so many tokens. A text that lies idle all the while is put aside.

        Where slots share one pool, each token looks at all that is in it; hardly so in a model
        with states or windows, whose texts serve as a whole only. One is moved at a time, for the
        others wait.
        """
        self._read += tokens
        for slot in self._free if self._rests else ():
            if self._read - self._left[slot] >= RESTS and len(self._held[slot]) >= LEAST:
                self._left[slot] = self._read
                if saved := self._keeping.aside(self._model, slot, self._held[slot]):
                    self.empty(slot)
                    self._rests = not saved.whole
                return

    def make_room(self) -> bool:
        """Empty what is free and give up what was put aside; return whether there was any."""
        full = [slot for slot in self._free if len(self._held[slot])]
        for slot in full:
            self.empty(slot)
        return self._keeping.spare() or bool(full)

    def close(self) -> None:
        """What is held may be kept for another time."""
        self._keeping.close(self._model, [(slot, self._held[slot]) for slot in self._free])
