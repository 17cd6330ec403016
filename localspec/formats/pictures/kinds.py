"""The kinds of pictures that can be read, known by the beginning of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping

READ = "PNG, JPEG, WebP, GIF and BMP are read"
BITMAP_HEADERS = (12, 40, 52, 56, 64, 108, 124)  # bytes
OTHERS: Mapping[str, re.Pattern[bytes]] = {  # kinds that clients send and nothing here reads
    "an SVG file": re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--|<!DOCTYPE svg|<svg)"),
    "a PDF file": re.compile(rb"%PDF-"),
    "a TIFF file": re.compile(rb"II\*\0|MM\0\*"),
    "an AVIF or HEIC file": re.compile(rb"....ftyp(avif|avis|heic|heix|hevc|mif1|msf1)", re.DOTALL),
    "a JPEG XL file": re.compile(rb"\xff\x0a|\0\0\0\x0cJXL "),
    "a video": re.compile(rb"....ftyp|\x1aE\xdf\xa3", re.DOTALL),
    "an icon": re.compile(b"\0\0\x01\0"),
}


def kind_of(data: bytes) -> str | None:
    """Return the kind of a picture that can be read, by its first bytes, whatever its name."""
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


def kind_in_words(data: bytes) -> str:
    """Name the kind of a file that is no readable picture."""
    if not data:
        return "empty (0 bytes)"
    kinds = (name for name, beginning in OTHERS.items() if beginning.match(data))
    return next(kinds, "of no known kind")
