"""The kind and the size of a picture, read from the beginning of its file: nothing is decoded."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from localspec.errors import UsageError

MAX_PIXELS = 50_000_000  # pixels of a picture, which take some 600 MB while it is decoded
READ = "PNG, JPEG, WebP, GIF and BMP are read"
MAX_SEGMENTS = 10_000  # of a JPEG file before its picture begins: a camera writes twenty
BITMAP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # bytes
JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # segments that tell the size
JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a segment
FILL = re.compile(rb"\xff+")
OTHERS: Mapping[str, re.Pattern[bytes]] = {  # kinds that clients send and nothing here reads
    "an SVG file": re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--|<!DOCTYPE svg|<svg)"),
    "a PDF file": re.compile(rb"%PDF-"),
    "a TIFF file": re.compile(rb"II\*\0|MM\0\*"),
    "an AVIF or HEIC file": re.compile(rb"....ftyp(avif|avis|heic|heix|hevc|mif1|msf1)", re.DOTALL),
    "a JPEG XL file": re.compile(rb"\xff\x0a|\0\0\0\x0cJXL "),
    "a video": re.compile(rb"....ftyp|\x1aE\xdf\xa3", re.DOTALL),
    "an icon": re.compile(b"\0\0\x01\0"),
}


class Header(NamedTuple):
    kind: str
    width: int
    height: int


def png_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def gif_size(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def bmp_size(data: bytes) -> tuple[int, int]:
    [length] = struct.unpack_from("<I", data, 14)
    width, height = struct.unpack_from("<HH" if length == 12 else "<ii", data, 18)
    return width, abs(height)  # below 0 where the first row is the uppermost


def webp_size(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            [bits] = struct.unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            low, high, tall_low, tall_high = struct.unpack_from("<HBHB", data, 24)
            return (low | high << 16) + 1, (tall_low | tall_high << 16) + 1


def jpeg_size(data: bytes) -> tuple[int, int]:
    """Go from segment to segment until one tells the size."""
    at = 2
    for _ in range(MAX_SEGMENTS):
        fill = FILL.match(data, at)
        if not fill:
            break
        at = fill.end() + 1
        marker = data[fill.end() : at]
        if marker and marker[0] in JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 3)
            return width, height
        if not marker or marker[0] not in JPEG_ALONE:
            [length] = struct.unpack_from(">H", data, at)
            at += length
    return 0, 0


SIZES: Mapping[str, Callable[[bytes], tuple[int, int]]] = {
    "PNG": png_size,
    "JPEG": jpeg_size,
    "WEBP": webp_size,
    "GIF": gif_size,
    "BMP": bmp_size,
}


def kind_of(data: bytes) -> str | None:
    """Tell a picture that can be read by its first bytes, whatever its name."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WEBP"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    is_bitmap = data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in BITMAP_HEADERS
    return "BMP" if is_bitmap else None


def header(data: bytes) -> Header:
    """Read the kind and the size of a picture, or raise."""
    kind = kind_of(data)
    if kind is None:
        raise UsageError(f"a picture is {described(data)}: {READ}")
    try:
        width, height = SIZES[kind](data)
    except struct.error:
        width = height = 0
    if min(width, height) < 1:
        raise UsageError(f"a picture is a {kind} file that is broken or cut off: send it whole")
    return Header(kind, width, height)


def described(data: bytes) -> str:
    """Tell what a file is that is no picture which can be read."""
    if not data:
        return "empty (0 bytes)"
    kinds = (name for name, beginning in OTHERS.items() if beginning.match(data))
    return next(kinds, "of no known kind")
