"""The largest pictures that are decoded."""

from __future__ import annotations

MAX_PIXELS = 50_000_000  # pixels of a picture, which take some 600 MB while it is decoded
MAX_BYTES = 64 << 20  # bytes of its file
