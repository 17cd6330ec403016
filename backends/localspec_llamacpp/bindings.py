"""llama.cpp through its low-level bindings: every call of libllama is in this file."""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from localspec.errors import BackendError, ContextFull, ModelFileError, OutOfMemory
from localspec.system import free_memory
from localspec.tokens import Logits, Tokens

FILE_TYPES = {
    number: name.removeprefix("LLAMA_FTYPE_").removeprefix("MOSTLY_").removeprefix("ALL_")
    for name, number in vars(lib).items()
    if name.startswith("LLAMA_FTYPE_") and name != "LLAMA_FTYPE_GUESSED"
}
# Types of keys and values, by ggml's numbers
KV_TYPES = {"f16": (1, 1), "f16/bf16": (1, 30), "q8_0": (8, 8), "q4_0": (2, 2)}
INFILL = {
    "prefix": lib.llama_vocab_fim_pre,
    "suffix": lib.llama_vocab_fim_suf,
    "middle": lib.llama_vocab_fim_mid,
    "pad": lib.llama_vocab_fim_pad,
    "repository": lib.llama_vocab_fim_rep,
    "separator": lib.llama_vocab_fim_sep,
}
_ERROR, _CONTINUED = 4, 5  # levels of the log
CACHE = re.compile(
    r"llama_(?P<kind>kv_cache|memory_recurrent): size = +(?P<mib>[\d.]+) MiB"
    r" \( *(?P<cells>\d+) cells, +(?P<layers>\d+) layers"
)
RECURRENT_LAYER = "llama_memory_recurrent, layer "
SIZE = re.compile(r"\w+: +(?:(?P<where>\S+) +(?P<what>\w+) buffer )?size = +(?P<mib>[\d.]+) MiB")
SHORTAGE = re.compile(r"failed to allocate|unable to allocate|out of memory|bad_alloc", re.I)
NO_CELLS, NO_MEMORY = 1, -2  # statuses of `llama_decode`


class Size(NamedTuple):
    """What llama.cpp says it takes."""

    where: str  # a device, or empty: all together
    what: str  # "model", "KV", "RS", "compute", "output", or empty: keys, values or states
    bytes: int


class Cache(NamedTuple):
    """One cache of a context, as llama.cpp logs it."""

    recurrent: bool
    bytes: int
    cells: int
    layers: int


class Log:
    """Where llama.cpp's log goes: to stderr when asked for, else its errors are kept."""

    def __init__(self) -> None:
        self.verbose = False
        self._errors: list[str] = []
        self._sizes: list[Size] = []
        self._caches: list[Cache] = []
        self._recurrent_layers = 0
        self._level = 0
        self.callback = lib.llama_log_callback(self._note)

    def _note(self, level: int, text: bytes, _: ctypes.c_void_p) -> None:
        self._level = level if level != _CONTINUED else self._level
        if self.verbose:
            sys.stderr.write(text.decode("utf-8", "replace"))
        if self._level == _ERROR:
            self._errors.append(text.decode("utf-8", "replace").strip())
        elif b"size = " in text:
            self._note_size(text.decode("utf-8", "replace"))
        elif text.startswith(RECURRENT_LAYER.encode()):
            self._recurrent_layers += 1

    def _note_size(self, line: str) -> None:
        if found := SIZE.match(line):
            size = int(float(found["mib"]) * 2**20)
            self._sizes.append(Size(found["where"] or "", found["what"] or "", size))
        if found := CACHE.match(line):
            recurrent = found["kind"] == "memory_recurrent"
            layers = self._recurrent_layers if recurrent else int(found["layers"])
            self._recurrent_layers = 0
            self._caches.append(Cache(recurrent, size, int(found["cells"]), layers))

    def take_errors(self) -> str:
        """What went wrong since the last call, in one line."""
        errors = "; ".join(dict.fromkeys(filter(None, self._errors)))
        self._errors.clear()
        return errors or "no reason given"

    def forget_errors(self) -> None:
        self._errors.clear()

    def take_sizes(self) -> list[Size]:
        """What was said to take how much since the last call."""
        sizes, self._sizes = self._sizes, []
        return sizes

    def take_caches(self) -> list[Cache]:
        """The caches that were laid out since the last call."""
        caches, self._caches = self._caches, []
        return caches

    def failure(self, what: str) -> BackendError:
        """An error that says what llama.cpp could not do, and why."""
        why = self.take_errors()
        return (OutOfMemory if SHORTAGE.search(why) else BackendError)(f"{what}: {why}")


LOG = Log()
lib.llama_log_set(LOG.callback, ctypes.c_void_p(0))
lib.llama_backend_init()


class Weights:
    """A loaded model file and its vocabulary."""

    def __init__(
        self, path: Path, gpu_layers: int, split: Sequence[float] = (), *, empty: bool = False
    ) -> None:
        params = lib.llama_model_default_params()
        params.n_gpu_layers = gpu_layers
        shares = (ctypes.c_float * lib.llama_max_devices())(*split)
        if split:
            params.tensor_split = shares
        if empty:  # a model without its weights: contexts tell what they would take
            params.no_alloc, params.load_mode = True, lib.LLAMA_LOAD_MODE_NONE
        LOG.take_errors()
        self.pointer = lib.llama_model_load_from_file(str(path).encode(), params)
        if not self.pointer:
            raise LOG.failure(f"llama.cpp could not load {path.name}")

    @property
    def vocab(self) -> Any:
        if not self.pointer:
            raise BackendError("this model was closed; load it again")
        return lib.llama_model_get_vocab(self.pointer)

    @property
    def vocabulary(self) -> int:
        return int(lib.llama_vocab_n_tokens(self.vocab))

    @property
    def context(self) -> int:
        return int(lib.llama_model_n_ctx_train(self.pointer))

    @property
    def window(self) -> int:
        return int(lib.llama_model_n_swa(self.pointer))

    @property
    def recurrent(self) -> bool:
        """Whether any layer keeps a state in place of all tokens."""
        return bool(
            lib.llama_model_is_recurrent(self.pointer) or lib.llama_model_is_hybrid(self.pointer)
        )

    @property
    def layers(self) -> int:
        """Layers of the trunk, without those of a drafting head."""
        return int(lib.llama_model_n_layer(self.pointer))

    @property
    def drafting_layers(self) -> int:
        """Layers of a drafting head in the same file (MTP)."""
        return int(lib.llama_model_n_layer_nextn(self.pointer))

    @property
    def generates(self) -> bool:
        """Whether it writes text from left to right, without an encoder."""
        return bool(
            lib.llama_model_has_decoder(self.pointer)
            and not lib.llama_model_has_encoder(self.pointer)
            and not lib.llama_model_is_diffusion(self.pointer)
        )

    @property
    def bos(self) -> int | None:
        return _token(lib.llama_vocab_bos(self.vocab))

    @property
    def eos(self) -> int | None:
        return _token(lib.llama_vocab_eos(self.vocab))

    @property
    def starts(self) -> bool:
        return bool(lib.llama_vocab_get_add_bos(self.vocab))

    def ends(self) -> frozenset[int]:
        is_end, vocab = lib.llama_vocab_is_eog, self.vocab
        return frozenset(token for token in range(self.vocabulary) if is_end(vocab, token))

    def control(self, text: str) -> int | None:
        """The control token with this text."""
        found: list[int] = self.tokenize(text.encode(), special=True).tolist()
        is_control = len(found) == 1 and lib.llama_vocab_is_control(self.vocab, found[0])
        return found[0] if is_control else None

    def infill(self) -> dict[str, int]:
        """Tokens for filling in, as the file names them or llama.cpp guesses by their texts."""
        found = {name: _token(ask(self.vocab)) for name, ask in INFILL.items()}
        return {name: token for name, token in found.items() if token is not None}

    def tokenize(self, text: bytes, special: bool) -> Tokens:
        room = len(text) + 8
        while True:
            tokens = np.empty(room, np.int32)
            place = tokens.ctypes.data_as(ctypes.POINTER(lib.llama_token))
            size = lib.llama_tokenize(self.vocab, text, len(text), place, room, False, special)
            if size >= 0:
                return tokens[:size].copy()
            if size == -(1 << 31):
                raise BackendError(f"a text of {len(text):,} bytes is too long to tokenise")
            room = -size

    def token_bytes(self, token: int) -> bytes:
        room = 64
        while True:
            piece = ctypes.create_string_buffer(room)
            size = lib.llama_token_to_piece(self.vocab, token, piece, room, 0, False)
            if size >= 0:
                return piece.raw[:size]
            room = -size

    def token_text(self, token: int) -> str:
        text: bytes = lib.llama_vocab_get_text(self.vocab, token)
        return text.decode("utf-8", "backslashreplace")

    def close(self) -> None:
        lib.llama_model_free(self.pointer)
        self.pointer = None


def _token(value: int) -> int | None:
    return value if value >= 0 else None


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a context is to be."""

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


class Part(NamedTuple):
    """Tokens of one sequence in a batch."""

    sequence: int
    position: int
    tokens: Tokens
    outputs: int  # trailing tokens whose logits are wanted


class Context:
    """Sequences of tokens held by a model, and the logits of the newest ones."""

    def __init__(self, weights: Weights, shape: Shape) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_seq_max = shape.cells, shape.sequences
        params.n_batch = params.n_ubatch = shape.batch
        params.n_outputs_max, params.n_rs_seq = shape.outputs, shape.snapshots
        params.n_threads = params.n_threads_batch = shape.threads
        params.type_k, params.type_v = KV_TYPES[shape.kv_type]
        flash = shape.flash_attention
        params.flash_attn_type = -1 if flash is None else int(flash)
        params.kv_unified = shape.pooled
        params.swa_full = shape.full_windows
        params.no_perf = True
        LOG.take_errors()
        self.pointer = lib.llama_init_from_model(weights.pointer, params)
        if not self.pointer:
            wish = f"{shape.cells:,} tokens of {shape.kv_type} context"
            raise LOG.failure(f"llama.cpp could not set up {wish}")
        self.pooled, self.cells = shape.pooled, shape.cells
        self._memory = lib.llama_get_memory(self.pointer)
        if not self._memory:
            lib.llama_free(self.pointer)
            raise ModelFileError("this model keeps nothing of a text, so it cannot continue one")
        self._width = weights.vocabulary
        self._batch = Batch(shape.batch, shape.sequences)
        self.ids = list(range(shape.sequences))  # by which llama.cpp knows each sequence
        self._views: dict[tuple[int, int], Logits] = {}

    @property
    def snapshots(self) -> int:
        """How many tokens a recurrent model can take back, 0 if its kind cannot at all."""
        return int(lib.llama_n_rs_seq(self.pointer))

    def decode(self, parts: Sequence[Part]) -> Logits:
        """Append every part in one batch; the logits live until the next call."""
        outputs = self._batch.fill(parts, self.ids)
        LOG.forget_errors()
        status = lib.llama_decode(self.pointer, self._batch.struct)
        if status:
            if status == NO_CELLS:
                raise ContextFull(parts[0].sequence, self.cells)
            kind = OutOfMemory if status == NO_MEMORY else BackendError
            raise kind(f"llama.cpp could not run a batch ({status}): {LOG.take_errors()}")
        return self._logits(outputs)

    def _logits(self, rows: int) -> Logits:
        if not rows:
            lib.llama_synchronize(self.pointer)
            return np.empty((0, self._width), np.float32)
        pointer = lib.llama_get_logits(self.pointer)
        key = (ctypes.addressof(pointer.contents), rows)
        view = self._views.get(key)
        if view is None:
            if len(self._views) > 256:
                self._views.clear()
            view = np.ctypeslib.as_array(pointer, (rows, self._width))
            self._views[key] = view
        return view

    def remove(self, sequence: int, start: int) -> bool:
        """Forget a sequence from a position on; False if its memory cannot."""
        return bool(lib.llama_memory_seq_rm(self._memory, self.ids[sequence], start, -1))

    def clear(self, sequence: int) -> None:
        lib.llama_memory_seq_rm(self._memory, self.ids[sequence], -1, -1)

    def copy(self, source: int, target: int, length: int) -> bool:
        """Let an empty sequence have another's tokens; whether it now has them.

        In a pool it shares the first so many, all if -1. Else all are copied, if there is memory
        for that, and at once: llama.cpp would put it off until the next batch, when the source may
        hold something else.
        """
        if self.pooled:
            ids = self.ids[source], self.ids[target]
            lib.llama_memory_seq_cp(self._memory, *ids, -1, length)
            return True
        data = self.save(source, free_memory.memory().free_bytes // 2)
        return data is not None and self.restore(target, data) > 0

    def save(self, sequence: int, most: int) -> NDArray[np.uint8] | None:
        """All that is held of a sequence, if there is room for it, in at most so many bytes."""
        size = self.size(sequence)
        if not 0 < size <= most:
            return None
        try:
            data = np.frombuffer(mmap.mmap(-1, size), np.uint8)  # the system gets it back whole
        except OSError:  # there is no memory for it
            return None
        place = _pointer(data, ctypes.c_uint8)
        written = lib.llama_state_seq_get_data(self.pointer, place, size, self.ids[sequence])
        return data if written == size else None

    def restore(self, sequence: int, data: NDArray[np.uint8]) -> int:
        """Fill an empty sequence by what was saved; how many tokens it then holds."""
        place = _pointer(data, ctypes.c_uint8)
        number = self.ids[sequence]
        if lib.llama_state_seq_set_data(self.pointer, place, len(data), number) != len(data):
            return 0
        return int(lib.llama_memory_seq_pos_max(self._memory, number)) + 1

    def size(self, sequence: int) -> int:
        """Bytes that `save` takes."""
        return int(lib.llama_state_seq_get_size(self.pointer, self.ids[sequence]))

    def exchange(self, one: int, other: int) -> bool:
        """Let two sequences change places in llama.cpp's order; whether there was memory for it.

        What they hold moves with them.
        """
        most = free_memory.memory().free_bytes // 4
        full = [each for each in (one, other) if self.oldest(each) >= 0]
        saved = [data for each in full if (data := self.save(each, most)) is not None]
        if len(saved) < len(full):
            return False
        for each in full:
            self.clear(each)
        self.ids[one], self.ids[other] = self.ids[other], self.ids[one]
        if not all(self.restore(each, data) for each, data in zip(full, saved, strict=True)):
            raise BackendError("llama.cpp could not move what a slot holds")
        return True

    def oldest(self, sequence: int) -> int:
        """The first position that all layers still hold."""
        return int(lib.llama_memory_seq_pos_min(self._memory, self.ids[sequence]))

    def close(self) -> None:
        lib.llama_free(self.pointer)


class Batch:
    """llama.cpp's batch, over arrays that numpy fills."""

    def __init__(self, size: int, sequences: int) -> None:
        self._tokens = np.zeros(size, np.int32)
        self._positions = np.zeros(size, np.int32)
        self._counts = np.ones(size, np.int32)
        self._ids = np.arange(sequences, dtype=np.int32)
        self._pointers = np.zeros(size, np.uintp)
        self._wanted = np.zeros(size, np.int8)
        self._range = np.arange(size, dtype=np.int32)
        self._first_id = self._ids.ctypes.data
        columns = (self._tokens, self._positions, self._pointers, self._wanted)
        self._cells = tuple(each.data for each in columns)
        self.struct = lib.llama_batch(
            token=_pointer(self._tokens, lib.llama_token),
            pos=_pointer(self._positions, lib.llama_pos),
            n_seq_id=_pointer(self._counts, ctypes.c_int32),
            seq_id=_pointer(self._pointers, ctypes.POINTER(lib.llama_seq_id)),
            logits=_pointer(self._wanted, ctypes.c_int8),
        )

    def fill(self, parts: Sequence[Part], ids: Sequence[int]) -> int:
        """Lay the parts out one after the other; return how many outputs are wanted.

        A sequence is told to llama.cpp by its number among `ids`.
        """
        end = outputs = 0
        for part in parts:
            start, end = end, end + len(part.tokens)
            if end - start == 1:
                self._put(start, part, ids[part.sequence])
            else:
                self._lay(start, end, part, ids[part.sequence])
            outputs += part.outputs
        self.struct.n_tokens = end
        return outputs

    def _put(self, at: int, part: Part, number: int) -> None:
        """Write a single token, as in plain decoding: ten times as fast as by slices."""
        tokens, positions, pointers, wanted = self._cells
        tokens[at] = int(part.tokens[0])
        positions[at] = part.position
        pointers[at] = self._first_id + 4 * number
        wanted[at] = part.outputs

    def _lay(self, start: int, end: int, part: Part, number: int) -> None:
        self._tokens[start:end] = part.tokens
        self._positions[start:end] = self._range[: end - start] + part.position
        self._pointers[start:end] = self._first_id + 4 * number
        self._wanted[start:end] = 0
        self._wanted[end - part.outputs : end] = 1


def _pointer(array: NDArray[np.generic], kind: type) -> object:
    return array.ctypes.data_as(ctypes.POINTER(kind))


def requantise(source: Path, target: Path, kind: str) -> None:
    """Write a copy of a model in another precision; quantised weights lose a little more."""
    params = lib.llama_model_quantize_default_params()
    params.ftype = next(number for number, name in FILE_TYPES.items() if name == kind.upper())
    params.allow_requantize = True
    LOG.take_errors()
    if lib.llama_model_quantize(str(source).encode(), str(target).encode(), params):
        raise BackendError(f"llama.cpp could not write {target.name}: {LOG.take_errors()}")


def features() -> tuple[str, ...]:
    """What this build can use, as it says itself: each part with what is on in it."""
    said = lib.llama_print_system_info().decode("utf-8", "replace")
    words = (part.rpartition(":") for part in said.split("|"))
    found = []
    for part, _, word in words:
        name, _, value = word.partition("=")
        found += [part.strip()] if part.strip() else []
        found += [name.strip()] if value.strip() == "1" else []
    return tuple(found)


def system_number(name: bytes) -> int | None:
    """A number the kernel of macOS knows by name."""
    value, size = ctypes.c_int64(), ctypes.c_size_t(8)
    library = ctypes.CDLL(None)
    failed = library.sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, 0)
    return None if failed else int(value.value)
