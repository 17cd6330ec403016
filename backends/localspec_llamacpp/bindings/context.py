"""Sequences of tokens held by a model, and the logits of the newest ones."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from localspec.adapter import Scales
from localspec.backend import Choose
from localspec.errors import BackendError, ContextFull, ModelFileError, OutOfMemory
from localspec.system import free_memory
from localspec.tokens import NONE, Logits
from localspec_llamacpp import worker_graphs
from localspec_llamacpp.bindings import nextn
from localspec_llamacpp.bindings.batch import (
    ANY,
    Hidden,
    LlamaBatch,
    Part,
    StatesBatch,
    pointer,
)
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.places import Places, Stretch
from localspec_llamacpp.bindings.weights import ModelWeights

if TYPE_CHECKING:
    from localspec_llamacpp.bindings.projector import Piece

# Types that keys and values can have, by ggml's numbers
KV_TYPES = {
    "f16": 1,
    "q8_0": 8,
    "q4_0": 2,
    "bf16": 30,
    "f32": 0,
    "q4_1": 3,
    "q5_0": 6,
    "q5_1": 7,
    "iq4_nl": 20,
}
NO_CELLS, NO_MEMORY = 1, -2  # statuses of `llama_decode`
MODEL, MTP, EAGLE3, DFLASH = "model", "mtp", "eagle3", "dflash"  # graphs
ENCODED = 64  # states encoded at once: llama.cpp keeps room for logits of each
WHOLE, STATES = 0, lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY  # parts of a sequence to save
MROPE = 8  # a kind of positions, with four numbers for a state
NO_PLACES = np.empty(0, np.uint8)


logits_address = lib._lib["llama_get_logits"]  # without a pointer object to unpack
logits_address.argtypes, logits_address.restype = [ctypes.c_void_p], ctypes.c_void_p


def kv_numbers(name: str) -> tuple[int, int]:
    """Give ggml's numbers of the types of keys and values: one name for both, or one for each."""
    keys, _, values = name.partition(",")
    return KV_TYPES[keys], KV_TYPES[values or keys]


@dataclass(frozen=True, slots=True)
class ContextShape:
    """The size and types of a context."""

    sequences: int
    pooled: bool  # whether they share one pool
    apart: bool  # whether long rows are run apart from short ones
    cells: int  # tokens all sequences can hold together
    batch: int
    outputs: int  # most rows of logits a forward can give
    snapshots: int  # states kept per sequence of a recurrent model, to go back to
    full_windows: bool  # whether layers with a window keep all tokens all the same
    kv_type: str
    flash_attention: bool | None  # None: llama.cpp decides
    threads: int
    graph: str = MODEL  # what is computed: the model, or a kind of head
    pictured: bool = False  # whether texts may hold pictures


def fresh(size: int) -> mmap.mmap:
    """Return so much memory, which the system gets back whole.

    In pages of the usual size: 9 MB then take 5 ms to write. Pages of 2 MiB, which numpy asks for,
    take 1.5 ms on a machine of its own, but 19 ms on a virtual one whose host takes free ones back.
    """
    if sys.platform == "win32":
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def allocated(size: int) -> NDArray[np.uint8] | None:
    """Return an array in fresh memory; None if there is none."""
    try:
        return np.frombuffer(fresh(size), np.uint8, size)
    except OSError:
        return None


class States:
    """The hidden states of a batch before some layers, valid until the next one."""

    def __init__(self, layers: Sequence[Hidden]) -> None:
        self._layers = layers

    def __getitem__(self, rows: slice) -> Hidden:
        """Give those of some tokens, side by side; those of one layer are not copied."""
        parts = [states[rows] for states in self._layers]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


class Context:
    """Sequences of tokens held by a model, and the logits of the newest ones."""

    def __init__(
        self, weights: ModelWeights, shape: ContextShape, trunk: Context | None = None
    ) -> None:
        """Set up a context of the model, or of the drafting head in it that follows a trunk."""
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_seq_max = shape.cells, shape.sequences
        params.n_batch = params.n_ubatch = shape.batch
        params.n_outputs_max, params.n_rs_seq = shape.outputs, shape.snapshots
        params.n_threads = params.n_threads_batch = shape.threads
        params.type_k, params.type_v = kv_numbers(shape.kv_type)
        flash = shape.flash_attention
        params.flash_attn_type = -1 if flash is None else int(flash)
        params.kv_unified = shape.pooled
        params.swa_full = shape.full_windows
        params.no_perf = True
        if trunk:
            params.ctx_other = trunk.pointer
        if shape.graph == MTP:
            params.ctx_type = lib.LLAMA_CONTEXT_TYPE_MTP
        LOG.take_errors()
        self.pointer: Any = lib.llama_init_from_model(weights.pointer, params)
        worker_graphs.forget()
        if not self.pointer:
            size = f"{shape.cells:,} tokens of {shape.kv_type} context"
            raise LOG.failure(f"llama.cpp could not set up {size}")
        self.shape = shape
        self._memory = lib.llama_get_memory(self.pointer)
        if not self._memory:
            self.close()
            raise ModelFileError("this model keeps nothing of a text, so it cannot continue one")
        self._width = weights.vocabulary
        self.hidden_width = weights.hidden_width
        self._outputs_only = False
        beside = self.hidden_width if shape.graph in (MTP, EAGLE3) else 0
        self._batch = LlamaBatch(shape.batch, shape.sequences, beside)
        self._axes = 4 if lib.llama_model_rope_type(weights.pointer) == MROPE else 1
        self._layers: tuple[int, ...] = ()  # whose states are told
        self._inner_width = weights.inner_width
        self._last_layer = weights.layers
        self.ids = list(range(shape.sequences))  # by which llama.cpp knows each sequence
        self.places = Places()
        self._views: dict[tuple[int, int, int], NDArray[np.float32]] = {}
        self._scales: Scales = ()
        self._lays_out = False  # whether the next batch frees memory, and allocates it anew

    @property
    def snapshots(self) -> int:
        """The number of tokens a recurrent model can take back; 0 if its kind cannot at all."""
        return int(lib.llama_n_rs_seq(self.pointer))

    def decode(self, parts: Sequence[Part]) -> Logits:
        """Append every part in one batch; the logits live until the next call."""
        outputs = self._batch.fill(self.places.placed(parts), self.ids)
        self._run(lib.llama_decode, self._batch.struct, parts[0].sequence)
        return self._logits(outputs)

    def look(self, part: Part, piece: Piece, offset: int) -> Logits:
        """Append positions of a picture, from an offset on, by the embeddings in the part."""
        sequence, start = part.sequence, part.position - offset
        grid = piece.grid[:, offset : offset + len(part.tokens)]
        part = part._replace(position=self.places.position(sequence, start))
        batch = StatesBatch([part], self.ids, len(grid), grid)
        lib.llama_set_causal_attn(self.pointer, not piece.whole)
        try:
            self._run(lib.llama_decode, batch.struct, sequence)
        finally:
            lib.llama_set_causal_attn(self.pointer, True)
        if not offset and (piece.whole or piece.positions != piece.length):
            self.places.append(sequence, Stretch(start, piece.length, piece.positions))
        return self._logits(part.outputs)

    def multi_step(
        self,
        places: Sequence[tuple[int, int]],
        tokens: Sequence[int],
        choose: Choose,
        steps: int,
    ) -> Sequence[int] | None:
        """Append a token to each sequence, then those that `choose` names; return what has no room.

        Each place is a sequence and how many tokens it holds. In one function, and with what it
        needs at hand: Python is ten times as slow where a forward has just filled the caches.
        """
        batch, context = self._batch, self.pointer
        newest = tokens
        parts = [Part(sequence, at, ANY, 1) for sequence, at in places]
        batch.fill(self.places.placed(parts), self.ids)
        values, positions = batch.cells[:2]
        decode, struct, ran = lib.llama_decode, batch.struct, worker_graphs.RUN.add
        address, rows, lays_out = 0, list[Logits](), self._lays_out
        LOG.forget_errors()
        for _ in range(steps):
            for at, token in enumerate(newest):
                values[at] = token
            ran(context)
            status = decode(context, struct)
            if lays_out:
                self._note_layout()
                lays_out = False
            if status:
                raise self._failure(status, places[0][0])
            for at in range(len(places)):
                positions[at] += 1
            newest_address = logits_address(context)
            if newest_address != address:
                address, rows = newest_address, list(self._logits(len(places)))
            chosen = choose(rows)
            if chosen is None:
                return None
            newest = chosen
        return newest

    def adapt(self, adapters: Sequence[Any], scales: Scales) -> None:
        """Compute with adapters of the model from now on, at these scales; with no others.

        llama.cpp lays its graph out anew in the next batch, so equal scales are not set again.
        """
        if scales == self._scales:
            return
        count = len(scales)
        chosen = (lib.llama_adapter_lora_p_ctypes * count)(*(adapters[at] for at, _ in scales))
        factors = (ctypes.c_float * count)(*(scale for _, scale in scales))
        lib.llama_set_adapters_lora(self.pointer, chosen, count, factors)
        self._scales, self._lays_out = scales, True

    def take_in(self, parts: Sequence[Part]) -> None:
        """Append hidden states of a trunk, for a head that reads no tokens with them."""
        batch = StatesBatch(parts, self.ids, self._axes)
        self._run(lib.llama_decode, batch.struct, parts[0].sequence)
        lib.llama_synchronize(self.pointer)

    def encode(self, states: Hidden) -> Hidden:
        """Turn hidden states of several layers of a trunk into what a head reads.

        Nothing is kept of them, but llama.cpp wants them to follow what a sequence holds.
        """
        end = int(lib.llama_memory_seq_pos_max(self._memory, self.ids[0])) + 1
        encoded = np.empty((len(states), self.hidden_width), np.float32)
        for at in range(0, len(states), ENCODED):
            piece = states[at : at + ENCODED]
            batch = StatesBatch([Part(0, end, NONE, 0, piece)], self.ids, self._axes)
            self._run(lib.llama_encode, batch.struct, 0)
            encoded[at : at + len(piece)] = self.hidden(len(piece))
        return encoded

    def _run(self, run: Callable[[Any, Any], int], batch: object, sequence: int) -> None:
        LOG.forget_errors()
        worker_graphs.RUN.add(self.pointer)
        status = run(self.pointer, batch)
        if self._lays_out:
            self._note_layout()
        if status:
            raise self._failure(status, sequence)

    def _note_layout(self) -> None:
        """Note that the memory of an old graph was freed, on workers too."""
        LOG.take_sizes()  # of the new one, which nobody asks for
        worker_graphs.forget()
        self._lays_out = False

    def _failure(self, status: int, sequence: int) -> BackendError:
        if status == NO_CELLS:
            return ContextFull(sequence, self.shape.cells)
        kind = OutOfMemory if status == NO_MEMORY else BackendError
        return kind(f"llama.cpp could not run a batch ({status}): {LOG.take_errors()}")

    def tell_hidden(self, *, outputs_only: bool = False) -> None:
        """Give hidden states from now on: of all tokens, or of outputs only."""
        nextn.tell(self.pointer, outputs_only=outputs_only)
        self._outputs_only = outputs_only

    def shares(self, trunk: Context) -> bool:
        """Whether it looks into a trunk's memory, in place of one of its own."""
        return bool(self.shape.graph == MTP and nextn.linked(self.pointer) == trunk.pointer)

    def tell_before(self, layers: Sequence[int]) -> None:
        """Give, from now on, the hidden states before these layers; before none, the last ones."""
        self._layers = tuple(layers)
        if self.shape.graph == MODEL and (not layers or self._last_layer in layers):
            self.tell_hidden()
        for layer in layers:
            if layer != self._last_layer:
                nextn.tell_before(self.pointer, layer)

    def tell_nothing(self) -> None:
        """Give no hidden states any more."""
        for layer in self._layers:
            if layer != self._last_layer:
                nextn.tell_before(self.pointer, layer, on=False)
        nextn.tell(self.pointer, outputs_only=False, on=False)

    def states(self, rows: int) -> States:
        """The hidden states of the newest batch: those that were asked for."""
        if not self._layers:
            return States([self.hidden(rows)])
        states = [
            self.hidden(rows)
            if layer == self._last_layer
            else self._viewed(nextn.hidden_before(self.pointer, layer), rows, self._inner_width)
            for layer in self._layers
        ]
        return States(states)

    def attend_both_ways(self) -> None:
        """Let tokens of a batch see those behind them."""
        lib.llama_set_causal_attn(self.pointer, False)

    def hidden(self, rows: int) -> Hidden:
        """The first hidden states of the newest batch."""
        return self._viewed(nextn.hidden(self.pointer), rows, self.hidden_width)

    def hidden_of_outputs(self, parts: Sequence[Part]) -> Hidden:
        """The hidden states of the newest batch, at its outputs."""
        if self._outputs_only:
            return self.hidden(sum(part.outputs for part in parts))
        ends = np.cumsum([len(part.tokens) for part in parts])
        pairs = zip(ends, parts, strict=True)
        outputs = [at for end, part in pairs for at in range(end - part.outputs, end)]
        return self.hidden(int(ends[-1]))[outputs]

    def choose_block(self, block: int) -> None:
        """Choose which of a head's blocks runs from now on."""
        nextn.choose_block(self.pointer, block)

    def _logits(self, rows: int) -> Logits:
        if not rows:
            lib.llama_synchronize(self.pointer)
            return np.empty((0, self._width), np.float32)
        return self._view(logits_address(self.pointer), rows, self._width)

    def _viewed(self, place: Any, rows: int, width: int) -> NDArray[np.float32]:
        return self._view(ctypes.addressof(place.contents), rows, width)

    def _view(self, address: int, rows: int, width: int) -> NDArray[np.float32]:
        """View what llama.cpp keeps at an address; making a view takes longer than finding one."""
        key = (address, rows, width)
        view = self._views.get(key)
        if view is None:
            if len(self._views) > 256:
                self._views.clear()
            place = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
            view = self._views[key] = np.ctypeslib.as_array(place, (rows, width))
        return view

    def remove(self, sequence: int, start: int) -> bool:
        """Forget a sequence behind its first tokens; False if its memory cannot."""
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
        if self.shape.pooled:
            ids, end = (self.ids[source], self.ids[target]), self.places.position(source, length)
            lib.llama_memory_seq_cp(self._memory, *ids, -1, end)
            self.places.copy(source, target, length)
            return True
        data = self.save(source, free_memory.memory().free_bytes // 2)
        return data is not None and self.refill(target, data)

    def save(self, sequence: int, most: int) -> NDArray[np.uint8] | None:
        """Save all that is held of a sequence, if it fits in memory and in `most` bytes."""
        size = self.size(sequence)
        places = self.places.save(sequence) if self.shape.pictured else NO_PLACES
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
        size = int(lib.llama_state_seq_get_size_ext(self.pointer, number, STATES))
        data = place if place is not None and len(place) == size else allocated(size)
        return data if data is not None and self._write(sequence, data, STATES) else None

    def _write(self, sequence: int, data: NDArray[np.uint8], part: int) -> bool:
        place, size, number = pointer(data, ctypes.c_uint8), len(data), self.ids[sequence]
        written = lib.llama_state_seq_get_data_ext(self.pointer, place, size, number, part)
        return bool(written == size)

    def restore(self, sequence: int, data: NDArray[np.uint8], length: int) -> bool:
        """Fill an empty sequence from saved bytes; return whether it then has `length` tokens."""
        if not self.refill(sequence, data):
            return False
        last = int(lib.llama_memory_seq_pos_max(self._memory, self.ids[sequence]))
        return last == self.places.position(sequence, length - 1)

    def refill(self, sequence: int, data: NDArray[np.uint8]) -> bool:
        """Fill an empty sequence from saved bytes; return whether it then has any tokens."""
        data = self.places.restore(sequence, data) if self.shape.pictured else data
        return self._restore(sequence, data, WHOLE)

    def restore_states(self, sequence: int, data: NDArray[np.uint8], length: int) -> bool:
        """Go back to the saved states of a sequence, which were those after `length` tokens."""
        return self._restore(sequence, data, STATES) and self.remove(sequence, length)

    def _restore(self, sequence: int, data: NDArray[np.uint8], part: int) -> bool:
        place, number = pointer(data, ctypes.c_uint8), self.ids[sequence]
        count = len(data)
        if lib.llama_state_seq_set_data_ext(self.pointer, place, count, number, part) != count:
            return False
        return bool(lib.llama_memory_seq_pos_max(self._memory, number) >= 0)

    def size(self, sequence: int) -> int:
        """The bytes that `save` takes."""
        return int(lib.llama_state_seq_get_size(self.pointer, self.ids[sequence]))

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

    def close(self) -> None:
        lib.llama_free(self.pointer)
        worker_graphs.RUN.discard(self.pointer)
        worker_graphs.forget()
