"""The largest pictures that are decoded."""

from __future__ import annotations

MAX_PIXELS = 50_000_000  # pixels of a picture, which take up to 1.4 GB while it is decoded
MAX_ALL_PIXELS = 100_000_000  # pixels of all pictures of a request
MAX_BYTES = 64 << 20  # bytes of its file
