"""Encoding: identifiers, events, and JSON in which one text changes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

MARK = "\0"

encoded = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` makes an encoder each time


def new_id(kind: str) -> str:
    return f"{kind}{secrets.token_hex(12)}"


def event(data: Mapping[str, object]) -> bytes:
    """Encode data as an event of a stream."""
    return b"data: " + encoded(data).encode() + b"\n\n"


def named_event(kind: str, data: Mapping[str, object]) -> bytes:
    """Encode data as an event with a name, which it has as its type too."""
    body = encoded({"type": kind, **data})
    return f"event: {kind}\ndata: {body}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Frame:
    """JSON with one text that changes; the rest is encoded once."""

    before: str
    after: str

    @classmethod
    def split(cls, whole: bytes) -> Frame:
        """Split JSON around the last MARK."""
        before, _, after = whole.decode().rpartition(encoded(MARK))
        return cls(before, after)

    def around(self, text: str) -> bytes:
        return f"{self.before}{encoded(text)}{self.after}".encode()
