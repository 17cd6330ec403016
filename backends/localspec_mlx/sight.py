"""What a model sees by: pictures as pieces of a text, and the embeddings that its tower makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from localspec.base.tokens import Tokens
from localspec.formats.pictures.decoding import Pixels, rgb_pixels
from localspec.interfaces.media import Kind, Medium, RunName
from localspec.interfaces.picture_runs import PictureRuns
from localspec_mlx.call import BothWays
from localspec_mlx.folder.pictures import PictureSettings

KEPT_BYTES = 64 << 20  # of embeddings, of pictures that no text holds any more
FLOAT = 4  # bytes of a number of an embedding, at most

Encode = Callable[[mx.array], mx.array]


@dataclass(frozen=True, slots=True)
class ScaledPicture:
    pixels: NDArray[np.uint8]  # height, width, colours
    length: int  # positions


@dataclass(slots=True, eq=False, weakref_slot=True)
class MlxRun:
    """Positions of a text that show a picture."""

    name: RunName
    first: int
    both_ways: BothWays
    picture: ScaledPicture | None  # until it is encoded
    embeddings: mx.array | None = None

    @property
    def whole(self) -> bool:
        return self.both_ways != "nowhere"

    def encoding(self) -> None:
        """Encode nothing ahead: a GPU that encodes has no time for other texts either."""


class MlxSight:
    """Takes pictures in. `pieces` is for any thread, `embeddings` for that of the model."""

    kinds: frozenset[Kind] = frozenset(("image",))

    def __init__(
        self,
        settings: PictureSettings,
        around: Sequence[Tokens],
        encode: Encode,
        read: Callable[[bytes], Pixels] = rgb_pixels,
    ) -> None:
        """See by a tower, whose embeddings a model reads between the tokens `around` them."""
        self._settings, self._around = settings, around
        self._encode, self._read = encode, read
        self._pictures = PictureRuns(self._split, self._made_run, kept_positions(settings))
        self.pieces = self._pictures.pieces

    def _split(self, medium: Medium) -> Sequence[Tokens | ScaledPicture]:
        before, after = self._around
        return [before, scaled(self._read(medium.data), self._settings), after]

    def _made_run(self, name: RunName, first: int, picture: ScaledPicture) -> MlxRun:
        return MlxRun(name, first, self._settings.both_ways, picture)

    def embeddings(self, positions: Tokens) -> tuple[MlxRun, mx.array]:
        """Return the run of positions, and what the model reads there: [positions, numbers].

        It is encoded now if it is not yet.
        """
        run = self._pictures.run(int(positions[0]))
        if run.embeddings is None:
            assert run.picture is not None
            embeddings = self._encode(normalised(run.picture.pixels, self._settings))
            mx.eval(embeddings)
            run.embeddings, run.picture = embeddings, None
        start = run.first - int(positions[0])
        return run, run.embeddings[start : start + len(positions)]


def scaled(pixels: Pixels, settings: PictureSettings) -> ScaledPicture:
    """Scale a picture to the size in which a tower takes it."""
    height, width, _ = pixels.shape
    size = settings.size(width, height)
    if size != (width, height):
        curve = Image.Resampling.BICUBIC if settings.smooth else Image.Resampling.BILINEAR
        pixels = np.asarray(Image.fromarray(pixels).resize(size, curve))
    return ScaledPicture(pixels, settings.positions(size))


def normalised(pixels: NDArray[np.uint8], settings: PictureSettings) -> mx.array:
    """Compute the numbers that a tower reads of a picture."""
    return (mx.array(pixels) / 255 - mx.array(settings.mean)) / mx.array(settings.deviation)


def kept_positions(settings: PictureSettings) -> int:
    """Count the positions whose embeddings are kept, in the bytes of the plan."""
    return KEPT_BYTES // (settings.width * FLOAT)
