"""llama.cpp's batch, over arrays that numpy fills."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import Tokens, tokens_of

ANY = tokens_of([0])  # a token in place of one to be named later
Hidden = NDArray[np.float32]  # a row for each token


class Part(NamedTuple):
    """Tokens of one sequence in a batch."""

    sequence: int
    position: int
    tokens: Tokens
    outputs: int  # trailing tokens whose logits are wanted
    hidden: Hidden | None = None  # for a head: the target's state before each token


class LlamaBatch:
    """A batch of llama.cpp's, over arrays that numpy fills."""

    def __init__(self, size: int, sequences: int, hidden: int = 0) -> None:
        self._hidden = np.zeros((size if hidden else 0, hidden), np.float32)
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._counts = np.ones(size, np.int32)
        self._ids = np.arange(sequences, dtype=np.int32)
        self._pointers = np.zeros(size, np.uintp)
        self._outputs = np.zeros(size, np.int8)
        self._range = np.arange(size, dtype=np.int32)
        self._first_id = self._ids.ctypes.data
        columns = (self._tokens, self._positions, self._pointers, self._outputs)
        self.cells = tuple(column.data for column in columns)
        self.struct = lib.llama_batch(
            token=pointer(self._tokens, lib.llama_token),
            pos=pointer(self._positions, lib.llama_pos),
            n_seq_id=pointer(self._counts, ctypes.c_int32),
            seq_id=pointer(self._pointers, ctypes.POINTER(lib.llama_seq_id)),
            logits=pointer(self._outputs, ctypes.c_int8),
        )
        if hidden:
            self.struct.embd = pointer(self._hidden, ctypes.c_float)

    def fill(self, parts: Sequence[Part], ids: Sequence[int]) -> int:
        """Lay the parts out one after the other; return how many outputs are wanted.

        llama.cpp knows a sequence by its number among `ids`.
        """
        end = outputs = 0
        for part in parts:
            start, end = end, end + len(part.tokens)
            if end - start == 1:
                self._put(start, part, ids[part.sequence])
            else:
                self._lay(start, end, part, ids[part.sequence])
            if part.hidden is not None:
                self._hidden[start:end] = part.hidden
                tokens = self._tokens[start:end]  # pictures are known by their states alone
                np.maximum(tokens, 0, out=tokens)
            outputs += part.outputs
        self.struct.n_tokens = end
        return outputs

    def _put(self, at: int, part: Part, number: int) -> None:
        """Write a single token, as in plain decoding: ten times as fast as by slices."""
        tokens, positions, pointers, outputs = self.cells
        tokens[at] = int(part.tokens[0])
        positions[at] = part.position
        pointers[at] = self._first_id + 4 * number
        outputs[at] = part.outputs

    def _lay(self, start: int, end: int, part: Part, number: int) -> None:
        self._tokens[start:end] = part.tokens
        self._positions[start:end] = self._range[: end - start] + part.position
        self._pointers[start:end] = self._first_id + 4 * number
        self._outputs[start:end] = 0
        self._outputs[end - part.outputs : end] = 1


class StatesBatch:
    """A batch of states or embeddings without tokens, for one to be filled and run at once."""

    def __init__(
        self,
        parts: Sequence[Part],
        ids: Sequence[int],
        axes: int = 1,
        grid: NDArray[np.int32] | None = None,
    ) -> None:
        """Lay out some states; `grid` says how far each is from the first one, on each axis."""
        hidden = [part.hidden for part in parts if part.hidden is not None]
        counts = [len(states) for states in hidden]
        self._states = np.concatenate(hidden)
        line = np.concatenate(
            [np.arange(n) + part.position for part, n in zip(parts, counts, strict=True)]
        )
        self._positions = np.zeros((axes, len(line)), np.int32)
        # Of four axes the last one counts nothing in a text.
        self._positions[:3] = line if grid is None else grid[:3] + parts[0].position
        self._ids = np.repeat(np.array([ids[part.sequence] for part in parts], np.int32), counts)
        self._pointers = self._ids.ctypes.data + 4 * np.arange(len(line), dtype=np.uintp)
        self._counts, self._outputs = np.ones(len(line), np.int32), np.zeros(len(line), np.int8)
        self._outputs[len(line) - parts[-1].outputs :] = 1
        self.struct = lib.llama_batch(
            n_tokens=len(line),
            embd=pointer(self._states, ctypes.c_float),
            pos=pointer(self._positions, lib.llama_pos),
            n_seq_id=pointer(self._counts, ctypes.c_int32),
            seq_id=pointer(self._pointers, ctypes.POINTER(lib.llama_seq_id)),
            logits=pointer(self._outputs, ctypes.c_int8),
        )


def pointer(array: NDArray[np.generic], kind: type) -> object:
    return array.ctypes.data_as(ctypes.POINTER(kind))
