"""What a model sees by: pictures as pieces of a text, and their embeddings, kept by digest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from localspec.base.errors import UsageError
from localspec.base.tokens import Tokens
from localspec.formats.pictures.decoding import Pixels, rgb_pixels
from localspec.interfaces.media import Kind, Medium, RunName
from localspec.interfaces.picture_runs import PictureRuns
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
        most = KEPT_BYTES // (projector.width * FLOAT)
        self._pictures = PictureRuns(self._split, self._made_run, most)
        self._encoder = ThreadPoolExecutor(1, "pictures")
        self.pieces, self.run = self._pictures.pieces, self._pictures.run

    def _split(self, medium: Medium) -> Sequence[Tokens | Piece]:
        return self._projector.pieces(self._read(medium.data))

    def _made_run(self, name: RunName, first: int, piece: Piece) -> LlamaRun:
        if piece.whole and piece.length > self.batch:
            raise UsageError(
                f"this picture takes {piece.length:,} positions that must be read at once, and "
                f"this model was loaded for {self.batch:,}: send a smaller picture"
            )
        return LlamaRun(name, first, piece, self._encode)

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
