"""The largest pictures that are decoded."""

from __future__ import annotations

MAX_PIXELS = 50_000_000  # pixels of a picture, which take up to 1.4 GB while it is decoded
# Pixels of all pictures of a request: 48 screenshots of 3840 x 2160, as conversations have.
# Requests take turns between pictures, so that others do not wait for all of them.
MAX_ALL_PIXELS = 400_000_000
MAX_BYTES = 64 << 20  # bytes of its file
