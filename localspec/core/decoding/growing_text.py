"""Text as it grows token by token: whole characters only, and nothing of a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class GrowingText:
    """Decodes bytes as they come, and holds back what may still become a stop string."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = stops
        self._pieces: list[bytes] = []  # not decoded yet, as nothing can end in them
        self._longest = max(map(len, stops), default=0)
        self._held = ""  # decoded, but a stop string may have begun in it
        self._ready: list[str] = []
        self._lengths: list[int] = []
        self.stopped_by: str | None = None

    def add(self, piece: bytes) -> bool:
        """Add the bytes of a token; return whether that completed a stop string."""
        if not self._stops:
            self._pieces.append(piece)
            return False
        if self.stopped_by is not None:
            return True
        self._held += self._decode_piece(piece)
        self._look_for_stops()
        return self.stopped_by is not None

    def _decode_piece(self, piece: bytes) -> str:
        text = self._decoder.decode(piece)
        self._lengths.append(len(text))
        return text

    def _decode(self) -> None:
        self._ready += map(self._decode_piece, self._pieces)
        self._pieces.clear()

    def take_text(self) -> str:
        """Return the text that became certain since the last call."""
        self._decode()
        text = "".join(self._ready)
        self._ready.clear()
        return text

    def take_lengths(self) -> list[int]:
        """Return the characters that each piece completed since the last call, held back or not."""
        self._decode()
        lengths, self._lengths = self._lengths, []
        return lengths

    def close(self) -> None:
        """End the text: release what was held back, but never half a character."""
        if self.stopped_by is None:
            self._ready.append(self._held)
        self._held = ""

    def _look_for_stops(self) -> None:
        matches = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if matches:
            at, self.stopped_by = min(matches, key=lambda match: (match[0], -len(match[1])))
            self._ready.append(self._held[:at])
            self._held = ""
            return
        safe = self._safe_length()
        self._ready.append(self._held[:safe])
        self._held = self._held[safe:]

    def _safe_length(self) -> int:
        """Find the earliest beginning of a stop string at the end of the held text."""
        for at in range(max(0, len(self._held) - self._longest + 1), len(self._held)):
            if any(stop.startswith(self._held[at:]) for stop in self._stops):
                return at
        return len(self._held)


def sendable(text: str) -> str:
    """Replace lone surrogates, which JSON can hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()
