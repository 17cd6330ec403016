"""A running server, and the model that a client asks it for."""

from __future__ import annotations

from dataclasses import dataclass

NO_KEY = "none"  # for clients that insist on a key, where the server wants none


@dataclass(frozen=True, slots=True)
class Endpoint:
    address: str  # without /v1
    model: str
    context: int  # tokens
    key: str = ""
    sees: bool = False  # whether it takes pictures in

    @property
    def api(self) -> str:
        return f"{self.address}/v1"

    @property
    def token(self) -> str:
        return self.key or NO_KEY

    @property
    def longest_reply(self) -> int:
        """Leave most of the context to what an agent has to send."""
        return max(self.context // 4, 1)
