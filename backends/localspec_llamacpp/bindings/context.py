"""Sequences of tokens held by a model, and the logits of the newest ones."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import BackendError, ContextFull, ModelFileError, OutOfMemory
from localspec.base.interruption import interrupt_held
from localspec.base.tokens import NONE, Logits
from localspec.interfaces.abilities import Choose
from localspec.interfaces.adapter import Scales
from localspec_llamacpp import worker_graphs
from localspec_llamacpp.bindings import nextn
from localspec_llamacpp.bindings.batch import ANY, Hidden, LlamaBatch, Part, StatesBatch
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.memory import SequenceMemory
from localspec_llamacpp.bindings.places import Stretch
from localspec_llamacpp.bindings.shape import EAGLE3, MODEL, MTP, ContextShape
from localspec_llamacpp.bindings.watching import Watch
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.threads import ContextThreads

if TYPE_CHECKING:
    from localspec_llamacpp.bindings.projector import Piece

NO_CELLS, NO_MEMORY = 1, -2  # statuses of `llama_decode`
ENCODED = 64  # states encoded at once: llama.cpp keeps room for logits of each
MROPE = 8  # a kind of positions, with four numbers for a state

logits_address = lib._lib["llama_get_logits"]  # without a pointer object to unpack
logits_address.argtypes, logits_address.restype = [ctypes.c_void_p], ctypes.c_void_p


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
        params = shape.params()
        self._watch = Watch(weights.inner_width, shape.batch) if shape.watched else None
        if self._watch:
            params.cb_eval = self._watch.callback
        if trunk:
            params.ctx_other = trunk.pointer
        LOG.take_errors()
        with interrupt_held():
            self.pointer: Any = lib.llama_init_from_model(weights.pointer, params)
        worker_graphs.forget()
        if not self.pointer:
            size = f"{shape.cells:,} tokens of {shape.kv_type} context"
            raise LOG.failure(f"llama.cpp could not set up {size}")
        self.shape = shape
        self.threads = ContextThreads(self.pointer, shape.threads, fixed=shape.fixed_threads)
        try:
            self.memory = SequenceMemory(self.pointer, shape)
        except ModelFileError:
            self.close()
            raise
        self._width = weights.vocabulary
        self.hidden_width = weights.hidden_width
        self._outputs_only = False
        beside = self.hidden_width if shape.graph in (MTP, EAGLE3) else 0
        self._batch = LlamaBatch(shape.batch, shape.sequences, beside)
        self._axes = 4 if lib.llama_model_rope_type(weights.pointer) == MROPE else 1
        self._layers: tuple[int, ...] = ()  # whose states are reported
        self._inner_width = weights.inner_width
        self._last_layer = weights.layers
        self._views: dict[tuple[int, int, int], NDArray[np.float32]] = {}
        self._scales: Scales = ()
        self._lays_out = False  # whether the next batch frees memory, and allocates it anew

    @property
    def snapshots(self) -> int:
        """The number of tokens a recurrent model can take back; 0 if its kind cannot at all."""
        return int(lib.llama_n_rs_seq(self.pointer))

    def decode(self, parts: Sequence[Part]) -> Logits:
        """Append every part in one batch; the logits live until the next call."""
        outputs = self._batch.fill(self.memory.places.placed(parts), self.memory.ids)
        self._run(lib.llama_decode, self._batch.struct, parts[0].sequence)
        return self._logits(outputs)

    def look(self, part: Part, piece: Piece, offset: int) -> Logits:
        """Append positions of a picture, from an offset on, by the embeddings in the part."""
        sequence, start = part.sequence, part.position - offset
        grid = piece.grid[:, offset : offset + len(part.tokens)]
        part = part._replace(position=self.memory.places.position(sequence, start))
        batch = StatesBatch([part], self.memory.ids, len(grid), grid)
        lib.llama_set_causal_attn(self.pointer, not piece.whole)
        try:
            self._run(lib.llama_decode, batch.struct, sequence)
        finally:
            lib.llama_set_causal_attn(self.pointer, True)
        if not offset and (piece.whole or piece.positions != piece.length):
            self.memory.places.append(sequence, Stretch(start, piece.length, piece.positions))
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
        batch.fill(self.memory.places.placed(parts), self.memory.ids)
        values, positions = batch.cells[:2]
        decode, struct, ran = lib.llama_decode, batch.struct, worker_graphs.RUN.add
        follow = self.threads.follow
        address, rows, lays_out = 0, list[Logits](), self._lays_out
        LOG.forget_errors()
        for _ in range(steps):
            for at, token in enumerate(newest):
                values[at] = token
            ran(context)
            follow()
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
        batch = StatesBatch(parts, self.memory.ids, self._axes)
        self._run(lib.llama_decode, batch.struct, parts[0].sequence)
        lib.llama_synchronize(self.pointer)

    def encode(self, states: Hidden) -> Hidden:
        """Turn hidden states of several layers of a trunk into what a head reads.

        Nothing is kept of them, but llama.cpp wants them to follow what a sequence holds.
        """
        end = self.memory.newest(0) + 1
        encoded = np.empty((len(states), self.hidden_width), np.float32)
        for at in range(0, len(states), ENCODED):
            piece = states[at : at + ENCODED]
            batch = StatesBatch([Part(0, end, NONE, 0, piece)], self.memory.ids, self._axes)
            self._run(lib.llama_encode, batch.struct, 0)
            encoded[at : at + len(piece)] = self.hidden(len(piece))
        return encoded

    def _run(self, run: Callable[[Any, Any], int], batch: object, sequence: int) -> None:
        LOG.forget_errors()
        worker_graphs.RUN.add(self.pointer)
        self.threads.follow()
        if self._watch:
            self._watch.begin()
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
        nextn.ext.llama_set_embeddings_nextn(self.pointer, True, outputs_only)
        self._outputs_only = outputs_only

    def shares(self, trunk: Context) -> bool:
        """Whether it looks into a trunk's memory, in place of one of its own."""
        if self.shape.graph != MTP:
            return False
        return bool(nextn.ext.llama_get_ctx_other(self.pointer) == trunk.pointer)

    def tell_before(self, layers: Sequence[int]) -> None:
        """Give, from now on, the hidden states before these layers; before none, the last ones."""
        self._layers = tuple(layers)
        if self._watch:
            self._watch.watch(layers)
            return
        if self.shape.graph == MODEL and (not layers or self._last_layer in layers):
            self.tell_hidden()
        for layer in layers:
            if layer != self._last_layer:
                nextn.tell_before(self.pointer, layer, True)

    def tell_nothing(self) -> None:
        """Give no hidden states any more."""
        if self._watch:
            self._watch.watch(())
            return
        for layer in self._layers:
            if layer != self._last_layer:
                nextn.tell_before(self.pointer, layer, False)
        nextn.ext.llama_set_embeddings_nextn(self.pointer, False, False)

    def states(self, rows: int) -> States:
        """The hidden states of the newest batch: those that were asked for."""
        if not self._layers:
            return States([self.hidden(rows)])
        return States([self._before(layer, rows) for layer in self._layers])

    def _before(self, layer: int, rows: int) -> Hidden:
        if self._watch:
            return self._watch.states(layer, rows)
        if layer == self._last_layer:
            return self.hidden(rows)
        return self._viewed(nextn.states_before(self.pointer, layer), rows, self._inner_width)

    def attend_both_ways(self) -> None:
        """Let tokens of a batch see those after them."""
        lib.llama_set_causal_attn(self.pointer, False)

    def hidden(self, rows: int) -> Hidden:
        """The first hidden states of the newest batch."""
        place = nextn.ext.llama_get_embeddings_nextn(self.pointer)
        return self._viewed(place, rows, self.hidden_width)

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
        nextn.ext.llama_set_nextn_layer_offset(self.pointer, block)

    def _logits(self, rows: int) -> Logits:
        if not rows:
            lib.llama_synchronize(self.pointer)
            return np.empty((0, self._width), np.float32)
        return self._view(logits_address(self.pointer), rows, self._width)

    def _viewed(self, place: Any, rows: int, width: int) -> NDArray[np.float32]:
        if not place:
            raise BackendError("llama.cpp gave no hidden states")
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

    def close(self) -> None:
        with interrupt_held():
            lib.llama_free(self.pointer)
            worker_graphs.RUN.discard(self.pointer)
            worker_graphs.forget()
