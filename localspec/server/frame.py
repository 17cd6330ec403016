"""JSON in which one text changes: the rest of it is encoded once."""

from __future__ import annotations

import json
from dataclasses import dataclass

MARK = "\0"

encoded = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes an encoder each time


@dataclass(frozen=True, slots=True)
class Frame:
    before: str
    after: str

    @classmethod
    def of(cls, whole: bytes) -> Frame:
        """What stands around the last MARK."""
        before, _, after = whole.decode().rpartition(encoded(MARK))
        return cls(before, after)

    def around(self, text: str) -> bytes:
        return f"{self.before}{encoded(text)}{self.after}".encode()
