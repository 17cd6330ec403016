"""Sampling parameters by the names of llama.cpp, which Ollama uses too."""

from __future__ import annotations

from pydantic import model_validator

from localspec.server.requests.fields import Stops
from localspec.server.requests.samplers import One, Repeating, Zero


def given(data: object) -> object:
    """Drop the fields of a request that are null."""
    if not isinstance(data, dict):
        return data
    return {name: value for name, value in data.items() if value is not None}


class Drawn(Repeating):
    given = model_validator(mode="before")(given)
    stop: str | Stops | None = None
    # llama.cpp samplers that LocalSpec lacks; only the value that disables each is accepted.
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
