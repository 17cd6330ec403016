"""libmtmd: a projector, which turns pictures into embeddings for a language model."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import BackendError, OutOfMemory, UsageError
from localspec.base.interruption import interrupt_held
from localspec.base.tokens import NONE, Tokens
from localspec.formats.pictures.decoding import Pixels
from localspec_llamacpp.bindings.batch import Hidden, pointer
from localspec_llamacpp.bindings.library import pictures_library
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.weights import ModelWeights

MARKER = b"<__media__>"  # stands for a picture in what libmtmd takes apart
IMAGE = 1  # a kind of what it gives
ORDER = [0, 2, 1, 3]  # of the axes t, x, y, z in a batch of llama.cpp
GRAY = np.full((96, 64, 3), 128, np.uint8)
LARGE = 8192  # pixels of a side, from which on no picture takes more positions


@cache
def library() -> Any:
    """Load libmtmd, which costs time that models without pictures do not spend."""
    mtmd = pictures_library()
    if mtmd is None:
        raise UsageError(
            "this build of llama.cpp lacks its library for pictures (mtmd): "
            "`localspec doctor --rebuild auto` makes one that has it"
        )
    mtmd.mtmd_helper_log_set(LOG.callback, ctypes.c_void_p(0))
    return mtmd


class Piece:
    """Positions of a picture that stand side by side, to be encoded when they are first read."""

    def __init__(self, mtmd: Any, chunk: Any, *, axes: int, whole: bool) -> None:
        self.length = int(mtmd.mtmd_input_chunk_get_n_tokens(chunk))
        self.positions = int(mtmd.mtmd_input_chunk_get_n_pos(chunk))
        self.whole = whole
        self.grid = _grid(mtmd, chunk, self.length)[:axes]  # for a text that begins with it
        self.embeddings: Hidden | None = None
        self.chunk = mtmd.mtmd_input_chunk_copy(chunk)
        self._free = weakref.finalize(self, mtmd.mtmd_input_chunk_free, self.chunk)
        self._free.atexit = False

    def become(self, embeddings: Hidden) -> None:
        """Keep the embeddings in place of the pixels."""
        self.embeddings = embeddings
        self._free()


def _grid(mtmd: Any, chunk: Any, length: int) -> NDArray[np.int32]:
    """Return the positions of a picture, a row for each axis."""
    cells = np.zeros((length, 4), np.uint32)
    tokens = mtmd.mtmd_input_chunk_get_tokens_image(chunk)
    mtmd.mtmd_helper_image_get_decoder_pos(tokens, 0, pointer(cells, mtmd.mtmd_decoder_pos))
    return np.ascontiguousarray(cells.T[ORDER].astype(np.int32))


class Projector:
    """A loaded projector. Any thread may take pictures apart and encode them: one does at a time.

    It computes in buffers of its own, beside a context of the model that another thread runs.
    """

    def __init__(
        self, path: Path, weights: ModelWeights, *, device: int | None, threads: int
    ) -> None:
        """Load it beside the weights of its model, on a device or with the host."""
        self._mtmd = library()
        params = self._mtmd.mtmd_context_params_default()
        params.use_gpu, params.device = device is not None, device
        params.print_timings, params.n_threads = False, threads
        params.media_marker = MARKER
        LOG.take_errors()
        with interrupt_held():
            file = os.fsencode(path)
            self.pointer = self._mtmd.mtmd_init_from_file(file, weights.pointer, params)
        if not self.pointer:
            raise refusal(f"{path.name} cannot be used with {weights.path.name}")
        self.path = path
        self.width = int(lib.llama_model_n_embd_inp(weights.pointer))
        self._vocabulary = weights.vocabulary
        self._axes = 4 if self._mtmd.mtmd_decode_use_mrope(self.pointer) else 1
        self._lock = Lock()  # while it takes a picture apart
        self._encoding = Lock()
        try:
            self._require_support()
        except BaseException:
            self.close()
            raise

    def _require_support(self) -> None:
        """Refuse projectors that encode a picture by where it stands in a text, as a few do."""
        if not self._mtmd.mtmd_support_vision(self.pointer):
            raise UsageError(f"{self.path.name} turns no pictures into embeddings")
        alone, later = self.pieces(GRAY), self._pieces(b"a" + 2 * MARKER, GRAY)
        if places(later) != 2 * places(alone):
            raise UsageError(
                f"{self.path.name} encodes a picture by its place in a text: "
                "such projectors are not supported"
            )

    @property
    def widest(self) -> int:
        """Positions of the largest picture, if they must be read in one batch; else 0."""
        return self.longest() if self._mtmd.mtmd_decode_use_non_causal(self.pointer, None) else 0

    def longest(self, side: int = LARGE) -> int:
        """Count the positions that are encoded at once of a square of so many pixels a side."""
        pieces = self._pieces(MARKER, side)
        return max(piece.length for piece in pieces if not isinstance(piece, np.ndarray))

    def pieces(self, pixels: Pixels) -> list[Tokens | Piece]:
        """Take a picture apart, into positions and tokens around them."""
        pieces = self._pieces(MARKER, pixels)
        texts = (piece for piece in pieces if isinstance(piece, np.ndarray))
        tokens = np.concatenate([NONE, *texts])
        if not ((tokens >= 0) & (tokens < self._vocabulary)).all():
            raise UsageError(
                f"the model lacks tokens by which {self.path.name} marks a picture: "
                "it was made for another model"
            )
        return pieces

    def _pieces(self, text: bytes, pixels: Pixels | int) -> list[Tokens | Piece]:
        """Take a text apart whose markers all stand for a picture, or a square of some side."""
        mtmd, count = self._mtmd, text.count(MARKER)
        with self._lock:
            self._require_open()
            LOG.forget_errors()
            bitmap, chunks = bitmap_of(mtmd, pixels), mtmd.mtmd_input_chunks_init()
            try:
                bitmaps = (mtmd.mtmd_bitmap_p_ctypes * count)(*[bitmap] * count)
                request = mtmd.mtmd_input_text(text, len(text), False, True)
                place = ctypes.byref(request)
                if mtmd.mtmd_tokenize(self.pointer, chunks, place, bitmaps, count):
                    raise refusal("this model cannot take this picture")
                every = range(mtmd.mtmd_input_chunks_size(chunks))
                return [self._piece(mtmd.mtmd_input_chunks_get(chunks, at)) for at in every]
            finally:
                mtmd.mtmd_input_chunks_free(chunks)
                mtmd.mtmd_bitmap_free(bitmap)

    def _piece(self, chunk: Any) -> Tokens | Piece:
        if self._mtmd.mtmd_input_chunk_get_type(chunk) == IMAGE:
            whole = self._mtmd.mtmd_decode_use_non_causal(self.pointer, chunk)
            return Piece(self._mtmd, chunk, axes=self._axes, whole=whole)
        count = ctypes.c_size_t()
        place = self._mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))
        return np.array(place[: count.value], np.int32)

    def encode(self, piece: Piece) -> Hidden:
        """Compute the embeddings of a piece, unless it has them."""
        with self._encoding:
            if piece.embeddings is None:
                self._require_open()
                LOG.forget_errors()
                if self._mtmd.mtmd_encode_chunk(self.pointer, piece.chunk):
                    raise LOG.failure("llama.cpp could not encode a picture")
                place = self._mtmd.mtmd_get_output_embd(self.pointer)
                piece.become(np.ctypeslib.as_array(place, (piece.length, self.width)).copy())
            assert piece.embeddings is not None
            return piece.embeddings

    def _require_open(self) -> None:
        if not self.pointer:
            raise BackendError("this model was closed; load it again")

    def close(self) -> None:
        with self._lock, self._encoding, interrupt_held():
            self._mtmd.mtmd_free(self.pointer)
            self.pointer = None


def refusal(failed: str) -> BackendError | UsageError:
    """Make an error of what libmtmd did not take, and its reason."""
    error = LOG.failure(failed)
    return error if isinstance(error, OutOfMemory) else UsageError(str(error))


def bitmap_of(mtmd: Any, pixels: Pixels | int) -> Any:
    """Hand pixels over; by the side of a square, nothing but its positions can be asked for."""
    if isinstance(pixels, int):
        return mtmd.mtmd_bitmap_init(pixels, pixels, None)
    height, width, _ = pixels.shape
    pixels = np.ascontiguousarray(pixels)
    return mtmd.mtmd_bitmap_init(width, height, pointer(pixels, ctypes.c_uint8))


def places(pieces: Sequence[Tokens | Piece]) -> list[tuple[int, list[list[int]]]]:
    """Describe the pictures among pieces, by their positions."""
    pictures = (piece for piece in pieces if not isinstance(piece, np.ndarray))
    return [(picture.length, picture.grid.tolist()) for picture in pictures]
