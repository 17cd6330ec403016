"""How a reply is drawn, in the names that llama.cpp has for it, and Ollama after it."""

from __future__ import annotations

from pydantic import model_validator

from localspec.server.requests.fields import Stops
from localspec.server.requests.samplers import One, Repeating, Zero


def given(data: object) -> object:
    """Of a request, what it gives: null is as good as nothing."""
    if not isinstance(data, dict):
        return data
    return {name: value for name, value in data.items() if value is not None}


class Drawn(Repeating):
    given = model_validator(mode="before")(given)
    stop: str | Stops | None = None
    # Other ways to draw, which nobody implements here: only as much of them as is none.
    typical_p: One | None = None
    mirostat: Zero | None = None
    mirostat_tau: float | None = None  # harmless without mirostat
    mirostat_eta: float | None = None  # likewise

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def own_seed(self) -> int | None:
        """-1 is for another one each time."""
        return None if self.seed is None or self.seed == -1 else self.seed % (1 << 64)
