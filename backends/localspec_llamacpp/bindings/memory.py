"""What a context holds of its sequences: forgotten, copied, saved and restored."""

from __future__ import annotations

import ctypes
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import BackendError, ModelFileError
from localspec.base.system import free_memory
from localspec.base.system.fresh_memory import allocated
from localspec_llamacpp.bindings.batch import pointer
from localspec_llamacpp.bindings.places import Places
from localspec_llamacpp.bindings.shape import ContextShape

WHOLE, STATES = 0, lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY  # parts of a sequence to save
NO_PLACES = np.empty(0, np.uint8)


class SequenceMemory:
    """The memory of a context, by sequences."""

    def __init__(self, context: Any, shape: ContextShape) -> None:
        self._context = context
        self._memory = lib.llama_get_memory(context)
        if not self._memory:
            raise ModelFileError("this model keeps nothing of a text, so it cannot continue one")
        self.pooled, self._pictured = shape.pooled, shape.pictured
        self.ids = list(range(shape.sequences))  # by which llama.cpp knows each sequence
        self.places = Places()

    def remove(self, sequence: int, start: int) -> bool:
        """Forget a sequence after its first tokens; False if its memory cannot."""
        begin = self.places.position(sequence, start)
        if not lib.llama_memory_seq_rm(self._memory, self.ids[sequence], begin, -1):
            return False
        self.places.copy(sequence, sequence, start)
        return True

    def clear(self, sequence: int) -> None:
        lib.llama_memory_seq_rm(self._memory, self.ids[sequence], -1, -1)
        self.places.clear(sequence)

    def copy(self, source: int, target: int, length: int) -> bool:
        """Give an empty sequence another's tokens; return whether it now has them.

        In a pool it shares the first `length` tokens, all if -1. Else all are copied, if there is
        memory for that, and at once: llama.cpp would put it off until the next batch, when the
        source may hold something else.
        """
        if self.pooled:
            ids, end = (self.ids[source], self.ids[target]), self.places.position(source, length)
            lib.llama_memory_seq_cp(self._memory, *ids, -1, end)
            self.places.copy(source, target, length)
            return True
        data = self.save(source, free_memory.memory().free_bytes // 2)
        return data is not None and self.refill(target, data)

    def save(self, sequence: int, most: int) -> NDArray[np.uint8] | None:
        """Save all that is held of a sequence, if it fits in memory and in `most` bytes."""
        size = self.size(sequence)
        places = self.places.save(sequence) if self._pictured else NO_PLACES
        if not 0 < size <= most or (data := allocated(size + len(places))) is None:
            return None
        data[size:] = places
        return data if self._write(sequence, data[:size], WHOLE) else None

    def save_states(
        self, sequence: int, place: NDArray[np.uint8] | None
    ) -> NDArray[np.uint8] | None:
        """Save the recurrent states of a sequence, in place of earlier ones where there are any.

        Memory that was written to before takes a tenth of the time.
        """
        number = self.ids[sequence]
        size = int(lib.llama_state_seq_get_size_ext(self._context, number, STATES))
        data = place if place is not None and len(place) == size else allocated(size)
        return data if data is not None and self._write(sequence, data, STATES) else None

    def _write(self, sequence: int, data: NDArray[np.uint8], part: int) -> bool:
        place, size, number = pointer(data, ctypes.c_uint8), len(data), self.ids[sequence]
        written = lib.llama_state_seq_get_data_ext(self._context, place, size, number, part)
        return bool(written == size)

    def restore(self, sequence: int, data: NDArray[np.uint8], length: int) -> bool:
        """Fill an empty sequence from saved bytes; return whether it then has `length` tokens."""
        if not self.refill(sequence, data):
            return False
        return self.newest(sequence) == self.places.position(sequence, length - 1)

    def refill(self, sequence: int, data: NDArray[np.uint8]) -> bool:
        """Fill an empty sequence from saved bytes; return whether it then has any tokens."""
        data = self.places.restore(sequence, data) if self._pictured else data
        return self._restore(sequence, data, WHOLE)

    def restore_states(self, sequence: int, data: NDArray[np.uint8], length: int) -> bool:
        """Go back to the saved states of a sequence, which were those after `length` tokens."""
        return self._restore(sequence, data, STATES) and self.remove(sequence, length)

    def _restore(self, sequence: int, data: NDArray[np.uint8], part: int) -> bool:
        place, number = pointer(data, ctypes.c_uint8), self.ids[sequence]
        count = len(data)
        if lib.llama_state_seq_set_data_ext(self._context, place, count, number, part) != count:
            return False
        return self.newest(sequence) >= 0

    def size(self, sequence: int) -> int:
        """The bytes that `save` takes."""
        return int(lib.llama_state_seq_get_size(self._context, self.ids[sequence]))

    def exchange(self, one: int, other: int) -> bool:
        """Let two sequences change places in llama.cpp's order; return whether memory sufficed.

        What they hold moves with them.
        """
        most = free_memory.memory().free_bytes // 4
        full = [sequence for sequence in (one, other) if self.oldest(sequence) >= 0]
        saved = [data for sequence in full if (data := self.save(sequence, most)) is not None]
        if len(saved) < len(full):
            return False
        for sequence in full:
            self.clear(sequence)
        self.ids[one], self.ids[other] = self.ids[other], self.ids[one]
        if not all(self.refill(*pair) for pair in zip(full, saved, strict=True)):
            raise BackendError("llama.cpp could not move what a slot holds")
        return True

    def oldest(self, sequence: int) -> int:
        """The first position that all layers still hold."""
        return int(lib.llama_memory_seq_pos_min(self._memory, self.ids[sequence]))

    def newest(self, sequence: int) -> int:
        """The last position that is held; -1: there is none."""
        return int(lib.llama_memory_seq_pos_max(self._memory, self.ids[sequence]))
