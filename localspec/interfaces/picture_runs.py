"""The runs of pictures that texts hold, and what stands for the pictures that were seen last."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, Protocol, TypeVar

import numpy as np

from localspec.base.errors import BackendError, UsageError
from localspec.base.tokens import Tokens
from localspec.interfaces.media import Medium, Run, RunName
from localspec.interfaces.media_positions import NUMBERS


class Piece(Protocol):
    """A part of a picture, in an engine's own form."""

    @property
    def length(self) -> int:
        """The positions that it takes."""


OwnPiece = TypeVar("OwnPiece", bound=Piece)
OwnRun = TypeVar("OwnRun", bound=Run)


class PictureRuns(Generic[OwnPiece, OwnRun]):
    """Keeps pictures by digest: each is taken apart once. Any thread may ask.

    split: takes a picture apart, into tokens and pieces; one picture at a time
    run: makes a run of a piece, with its name and its first number
    most: positions that are kept of pictures that no text holds any more
    """

    def __init__(
        self,
        split: Callable[[Medium], Sequence[Tokens | OwnPiece]],
        run: Callable[[RunName, int, OwnPiece], OwnRun],
        most: int,
    ) -> None:
        self._split, self._make_run, self._most = split, run, most
        self._looking = Lock()  # one picture at a time is taken apart, as it is decoded
        self._lock = Lock()  # of what is kept
        self._kept: OrderedDict[bytes, Sequence[Tokens | OwnRun]] = OrderedDict()
        self._runs: weakref.WeakValueDictionary[int, OwnRun] = weakref.WeakValueDictionary()

    def pieces(self, medium: Medium) -> Sequence[Tokens | OwnRun]:
        """Return what stands for a picture in a text."""
        if medium.kind != "image":
            raise UsageError("this model sees pictures, and hears no sound")
        kept = self._kept_pieces(medium.digest)
        if kept is None:
            with self._looking:
                kept = self._kept_pieces(medium.digest) or self._split_and_keep(medium)
        return kept

    def _kept_pieces(self, digest: bytes) -> Sequence[Tokens | OwnRun] | None:
        with self._lock:
            if digest in self._kept:
                self._kept.move_to_end(digest)
            return self._kept.get(digest)

    def _split_and_keep(self, medium: Medium) -> Sequence[Tokens | OwnRun]:
        pieces = self._split(medium)
        with self._lock:
            numbered = [
                piece
                if isinstance(piece, np.ndarray)
                else self._numbered(RunName(medium.digest, at, piece.length), piece)
                for at, piece in enumerate(pieces)
            ]
            self._keep(medium.digest, numbered)
        return numbered

    def _numbered(self, name: RunName, piece: OwnPiece) -> OwnRun:
        """Make a run, unless a text still holds the same one."""
        first = NUMBERS.first(name)
        run = self._runs.get(first) or self._make_run(name, first, piece)
        self._runs[first] = run
        return run

    def _keep(self, digest: bytes, pieces: Sequence[Tokens | OwnRun]) -> None:
        """Keep what was used last, in so many positions."""
        self._kept[digest] = pieces
        total = sum(map(positions_in, self._kept.values()))
        while total > self._most and len(self._kept) > 1:
            total -= positions_in(self._kept.popitem(last=False)[1])

    def run(self, number: int) -> OwnRun:
        """Return the run that a position belongs to."""
        with self._lock:
            for run in self._runs.values():
                if run.first >= number > run.first - run.name.length:
                    return run
        raise BackendError("a text was to be read without its pictures")


def positions_in(pieces: Sequence[Tokens | Run]) -> int:
    """Count the positions of the runs among pieces."""
    return sum(piece.name.length for piece in pieces if not isinstance(piece, np.ndarray))
