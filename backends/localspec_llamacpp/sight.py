"""What a model sees by: pictures as pieces of a text, and their embeddings, kept by digest."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

import numpy as np

from localspec.base.errors import BackendError, UsageError
from localspec.base.tokens import Tokens
from localspec.formats.pictures.decoding import Pixels, rgb_pixels
from localspec.interfaces.media import Kind, Medium, Run, RunName
from localspec.interfaces.media_positions import NUMBERS
from localspec_llamacpp import openmp
from localspec_llamacpp.bindings.batch import Hidden
from localspec_llamacpp.bindings.projector import Piece, Projector

KEPT_BYTES = 256 << 20  # of embeddings, of pictures that no text holds any more
FLOAT = 4  # bytes of a number of an embedding


@dataclass(slots=True, eq=False, weakref_slot=True)
class LlamaRun:
    """Positions of a text that show a picture, or a piece of it."""

    name: RunName
    first: int
    piece: Piece
    encode: Callable[[Piece], Future[object]]  # on a thread of its own
    _encoding: Future[object] | None = None

    @property
    def whole(self) -> bool:
        return self.piece.whole

    @property
    def last(self) -> int:
        return self.first - self.name.length + 1

    def encoding(self) -> Future[object] | None:
        if self.piece.embeddings is not None:
            return None
        if self._encoding is None:
            self._encoding = self.encode(self.piece)
        # What failed is tried again by the thread of the model, which reports it.
        return None if self._encoding.done() else self._encoding


class LlamaSight:
    """Takes pictures in. `pieces` is for any thread, `embeddings` for that of the model."""

    kinds: frozenset[Kind] = frozenset(("image",))

    def __init__(
        self, projector: Projector, batch: int, read: Callable[[bytes], Pixels] = rgb_pixels
    ) -> None:
        """See by a projector; a picture that is read whole has room in `batch` positions."""
        self.batch = batch
        self._projector, self._read = projector, read
        self._looking = Lock()  # one picture at a time is taken apart, as it is decoded
        self._lock = Lock()  # of what is kept
        self._kept: OrderedDict[bytes, Sequence[Tokens | LlamaRun]] = OrderedDict()
        self._runs: weakref.WeakValueDictionary[int, LlamaRun] = weakref.WeakValueDictionary()
        self._encoder = ThreadPoolExecutor(1, "pictures")

    def pieces(self, medium: Medium) -> Sequence[Tokens | Run]:
        if medium.kind not in self.kinds:
            raise UsageError("this model sees pictures, and hears no sound")
        kept = self._kept_pieces(medium.digest)
        if kept is None:
            with self._looking:
                kept = self._kept_pieces(medium.digest) or self._split_and_keep(medium)
        return kept

    def _kept_pieces(self, digest: bytes) -> Sequence[Tokens | LlamaRun] | None:
        with self._lock:
            if digest in self._kept:
                self._kept.move_to_end(digest)
            return self._kept.get(digest)

    def _split_and_keep(self, medium: Medium) -> Sequence[Tokens | LlamaRun]:
        pieces = self._projector.pieces(self._read(medium.data))
        with self._lock:
            parts = [
                piece
                if isinstance(piece, np.ndarray)
                else self._numbered(RunName(medium.digest, at, piece.length), piece)
                for at, piece in enumerate(pieces)
            ]
            self._keep(medium.digest, parts)
        return parts

    def _numbered(self, name: RunName, piece: Piece) -> LlamaRun:
        """Make a run, unless a text still holds the same one."""
        if piece.whole and piece.length > self.batch:
            raise UsageError(
                f"this picture takes {piece.length:,} positions that must be read at once, and "
                f"this model was loaded for {self.batch:,}: send a smaller picture"
            )
        first = NUMBERS.first(name)
        run = self._runs.get(first) or LlamaRun(name, first, piece, self._encode)
        self._runs[first] = run
        return run

    def _keep(self, digest: bytes, pieces: Sequence[Tokens | LlamaRun]) -> None:
        """Keep what was used last, in so many bytes."""
        self._kept[digest] = pieces
        size = sum(self._bytes(pieces) for pieces in self._kept.values())
        while size > KEPT_BYTES and len(self._kept) > 1:
            size -= self._bytes(self._kept.popitem(last=False)[1])

    def _bytes(self, pieces: Sequence[Tokens | LlamaRun]) -> int:
        positions = sum(p.name.length for p in pieces if not isinstance(p, np.ndarray))
        return positions * self._projector.width * FLOAT

    def run(self, number: int) -> LlamaRun:
        """Return the run that a position belongs to."""
        with self._lock:
            for run in self._runs.values():
                if run.first >= number >= run.last:
                    return run
        raise BackendError("a text was to be read without its pictures")

    def _encode(self, piece: Piece) -> Future[object]:
        return self._encoder.submit(self._encoded, piece)

    def _encoded(self, piece: Piece) -> object:
        try:
            return self._projector.encode(piece)
        finally:
            openmp.end_threads()  # which would slow those of the model down

    def embeddings(self, run: LlamaRun) -> Hidden:
        """Return what the model reads, encoded now where it is not yet."""
        return self._projector.encode(run.piece)

    def close(self) -> None:
        self._encoder.shutdown(cancel_futures=True)
        self._projector.close()
