"""Decoding of pictures that strangers sent, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localspec.base.confined.process import ConfinedProcess, Unanswered
from localspec.base.errors import UsageError
from localspec.formats.pictures.kinds import READ, kind_in_words, kind_of
from localspec.formats.pictures.limits import MAX_BYTES, MAX_PIXELS

Pixels = NDArray[np.uint8]  # height, width, and red, green and blue
Size = tuple[int, int]  # width and height

SCRIPT = Path(__file__).with_name("decode_process.py")


class Decoder:
    """Any thread may ask it; it works on one picture at a time."""

    def __init__(self, seconds: float = 5.0, memory_bytes: int = 3 << 29) -> None:
        self._process = ConfinedProcess(SCRIPT, seconds, memory_bytes)
        self._limits = {"max_pixels": MAX_PIXELS, "memory_bytes": memory_bytes}

    def rgb(self, data: bytes) -> Pixels:
        (width, height), pixels = self._ask("rgb", data)
        return np.frombuffer(pixels, np.uint8).reshape(height, width, 3)

    def size(self, data: bytes) -> Size:
        return self._ask("size", data)[0]

    def _ask(self, part: str, data: bytes) -> tuple[Size, bytes]:
        if len(data) > MAX_BYTES:
            raise UsageError(f"a picture's file has {len(data):,} bytes; it may have {MAX_BYTES:,}")
        kind = kind_of(data)
        if kind is None:
            raise UsageError(f"a picture is {kind_in_words(data)}: {READ}")
        try:
            request = {"part": part, "kind": kind, **self._limits}
            reply, pixels, _ = self._process.ask(request, data)
        except Unanswered as error:
            raise UsageError(f"a picture could not be decoded: {error}") from error
        if why := reply.get("refused"):
            raise UsageError(f"a picture is a {kind} file that cannot be decoded: {why}")
        return (reply["width"], reply["height"]), pixels


PICTURES = Decoder()
HEADERS = Decoder()  # a process of its own, so that no header waits for pixels


def rgb_pixels(data: bytes) -> Pixels:
    """Decode a PNG, JPEG, WebP, GIF (its first frame) or BMP file, or raise `UsageError`.

    The picture is turned as its metadata say, and transparent parts lie on white.
    """
    return PICTURES.rgb(data)


def size_of(data: bytes) -> Size:
    """Read the size of a picture from its header, or raise `UsageError`."""
    return HEADERS.size(data)
