"""Pictures as files, whole and hostile."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from io import BytesIO

from PIL import Image

RED, BLUE = (200, 10, 20), (20, 10, 200)
KINDS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")


def halves(size: tuple[int, int] = (16, 8), mode: str = "RGB") -> Image.Image:
    """Make a picture whose left half is red, and whose right half is blue."""
    image = Image.new("RGB", size, RED)
    image.paste(BLUE, (size[0] // 2, 0, *size))
    return image.convert(mode)


def written(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def picture(kind: str = "PNG", size: tuple[int, int] = (16, 8)) -> bytes:
    return written(halves(size), kind)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, rows: bytes) -> bytes:
    """Write a PNG of grey pixels that says to have this size, whatever it has."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def many_frames(count: int) -> bytes:
    """Write a GIF that has its first frame over and over."""
    file = written(halves((8, 8)), "GIF")
    # Behind the header, the screen and its colours come the frames, and at last a semicolon.
    colours = 3 << (file[10] & 7) + 1
    begin = 13 + colours
    return file[:begin] + file[begin:-1] * count + b";"


def looping_exif() -> bytes:
    """Write metadata whose second directory is the first one, and whose tags are directories."""
    entry = struct.pack("<HHII", 0x8769, 4, 1, 8)
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 8)


def exif(orientation: int) -> bytes:
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    return b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 0)


def hostile() -> Mapping[str, bytes]:
    """Return files that must be refused, with words of the refusal."""
    whole = picture("PNG", (200, 100))
    return {
        "cannot be decoded": whole[: len(whole) // 2],
        "3600000000 pixels": png(60_000, 60_000, zlib.compress(bytes(1000))),
        "a GIF file that cannot be decoded: it is broken or cut off": b"GIF89a",
        "an SVG file": b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"/>',
        "empty (0 bytes)": b"",
        "a PDF file": b"%PDF-1.7\n",
        "an AVIF or HEIC file": b"\0\0\0\x1cftypavif" + bytes(40),
        "of no known kind": b"these are words",
        "a JPEG file that cannot be decoded": b"\xff\xd8\xff\xe0" + b"\0\x02\xff\xe0" * 200_000,
        "a BMP file that cannot be decoded": b"BM"
        + bytes(12)
        + struct.pack("<Iii", 40, 0, 0)
        + bytes(20),
    }
