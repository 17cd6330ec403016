"""Decoding of pictures that strangers sent, in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from localspec.confined.process import ConfinedProcess, Unanswered
from localspec.errors import UsageError
from localspec.pictures.header import MAX_PIXELS, Header, header

Pixels = NDArray[np.uint8]  # height, width, and red, green and blue

SCRIPT = Path(__file__).with_name("decode_process.py")
MAX_BYTES = 64 << 20  # bytes of its file


class Decoder:
    """Any thread may ask it; it decodes one picture at a time."""

    def __init__(self, seconds: float = 5.0, memory_bytes: int = 1 << 30) -> None:
        self._process = ConfinedProcess(SCRIPT, seconds, memory_bytes, (str(MAX_PIXELS),))

    def rgb(self, data: bytes) -> Pixels:
        kind = checked(data).kind
        request = (f"{kind} {len(data)}\n".encode(), data)
        try:
            answer = self._process.ask(request, read_answer)
        except Unanswered as error:
            raise UsageError(f"a picture could not be decoded: {error}") from error
        if isinstance(answer, str):
            raise UsageError(f"a picture is a {kind} file that cannot be decoded: {answer}")
        return answer


def checked(data: bytes) -> Header:
    """Read the kind and the size of a picture; refuse one that is too large to be decoded."""
    if len(data) > MAX_BYTES:
        raise UsageError(f"a picture's file has {len(data):,} bytes; it may have {MAX_BYTES:,}")
    kind, width, height = header(data)
    if width * height > MAX_PIXELS:
        raise UsageError(
            f"a picture has {width:,} x {height:,} pixels, which are {width * height:,}; "
            f"it may have {MAX_PIXELS:,}: send it smaller"
        )
    return Header(kind, width, height)


def read_answer(stream: IO[bytes]) -> Pixels | str:
    """Read the pixels, or why there are none."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    match json.loads(line):
        case {"refused": str(why)}:
            return why
        case {"width": int(width), "height": int(height)}:
            data = bytearray(height * width * 3)
            left = memoryview(data)
            while left:
                count = stream.readinto(left)  # type: ignore[attr-defined]
                if not count:
                    raise EOFError
                left = left[count:]
            return np.frombuffer(data, np.uint8).reshape(height, width, 3)
    raise EOFError


SHARED = Decoder()


def rgb_pixels(data: bytes) -> Pixels:
    """Decode a PNG, JPEG, WebP, GIF (its first frame) or BMP file, or raise `UsageError`.

    The picture is turned as its metadata say, and transparent parts lie on white.
    """
    return SHARED.rgb(data)
