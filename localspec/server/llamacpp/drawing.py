"""How a reply is drawn, in the names that llama.cpp has for it, and Ollama after it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from localspec.sampling import Sampling
from localspec.server.faults import refused
from localspec.server.fields import Sampled, Stops

Zero = Annotated[float, Field(ge=0, le=0)]
One = Annotated[float, Field(ge=1, le=1)]


def given(data: object) -> object:
    """Of a request, what it gives: null is as good as nothing."""
    if not isinstance(data, dict):
        return data
    return {name: value for name, value in data.items() if value is not None}


class Drawn(Sampled):
    given = model_validator(mode="before")(given)
    stop: str | Stops | None = None
    repeat_penalty: float | None = Field(None, ge=0.01, le=100)
    repeat_last_n: int | None = None
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

    def drawn(self, usual: Sampling) -> Sampling:
        if self.repeat_penalty is not None:
            self = self.model_copy(update={"repetition_penalty": self.repeat_penalty})
        found = self.sampling(usual)
        if found.penalises and self.repeat_last_n not in (None, -1):
            raise refused(
                "penalties look at the whole text: repeat_last_n is -1 here", "repeat_last_n"
            )
        return found
