"""Decoding of pictures that strangers sent, in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray

from localspec.base.confined.process import ConfinedProcess, Unanswered
from localspec.base.errors import UsageError
from localspec.formats.pictures.kinds import READ, kind_in_words, kind_of
from localspec.formats.pictures.limits import MAX_BYTES, MAX_PIXELS

Pixels = NDArray[np.uint8]  # height, width, and red, green and blue
Size = tuple[int, int]  # width and height
T = TypeVar("T")

SCRIPT = Path(__file__).with_name("decode_process.py")


class Decoder:
    """Any thread may ask it; it works on one picture at a time."""

    def __init__(self, seconds: float = 5.0, memory_bytes: int = 3 << 29) -> None:
        self._process = ConfinedProcess(SCRIPT, seconds, memory_bytes, (str(MAX_PIXELS),))

    def rgb(self, data: bytes) -> Pixels:
        return self._ask("rgb", data, read_pixels)

    def size(self, data: bytes) -> Size:
        return self._ask("size", data, read_size)

    def _ask(self, part: str, data: bytes, read: Callable[[IO[bytes]], T | str]) -> T:
        if len(data) > MAX_BYTES:
            raise UsageError(f"a picture's file has {len(data):,} bytes; it may have {MAX_BYTES:,}")
        kind = kind_of(data)
        if kind is None:
            raise UsageError(f"a picture is {kind_in_words(data)}: {READ}")
        try:
            answer = self._process.ask((f"{part} {kind} {len(data)}\n".encode(), data), read)
        except Unanswered as error:
            raise UsageError(f"a picture could not be decoded: {error}") from error
        if isinstance(answer, str):
            raise UsageError(f"a picture is a {kind} file that cannot be decoded: {answer}")
        return answer


def read_size(stream: IO[bytes]) -> Size | str:
    """Read the size of a picture, or why there is none."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    match json.loads(line):
        case {"width": int(width), "height": int(height)}:
            return width, height
        case reply:
            return str(reply["refused"])


def read_pixels(stream: IO[bytes]) -> Pixels | str:
    """Read the pixels, or why there are none."""
    size = read_size(stream)
    if isinstance(size, str):
        return size
    width, height = size
    data = bytearray(height * width * 3)
    left = memoryview(data)
    while left:
        count = stream.readinto(left)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        left = left[count:]
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


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
