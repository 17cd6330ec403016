"""What llama.cpp's clients say of samplers, also to other APIs than its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.sampling.parameters import Sampling
from localspec.server.faults import refused
from localspec.server.requests.fields import Sampled

Zero = Annotated[float, Field(ge=0, le=0)]
One = Annotated[float, Field(ge=1, le=1)]

Sampler = Literal[
    "penalties",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "infill",
    # Harmless: below, their parameters may only be such that they do nothing.
    "dry",
    "top_n_sigma",
    "typ_p",
    "typical_p",
    "xtc",
]
LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
}


def spelled(given: object) -> object:
    """From one letter for each; a letter that nobody knows is refused as a name."""
    return [LETTERS.get(each, each) for each in given] if isinstance(given, str) else given


class Repeating(Sampled):
    repeat_penalty: float | None = Field(None, ge=0.01, le=100)
    repeat_last_n: int | None = None

    def sampling(self, usual: Sampling) -> Sampling:
        if self.repeat_penalty is not None:
            usual = replace(usual, repetition=self.repeat_penalty)
        found = super().sampling(usual)
        if found.penalises and self.repeat_last_n not in (None, -1):
            raise refused(
                "penalties look at the whole text: repeat_last_n is -1 here", "repeat_last_n"
            )
        return found


class Undrawn(Repeating):
    """llama.cpp samplers that LocalSpec lacks; only the value that disables each is accepted."""

    samplers: Annotated[list[Sampler] | None, BeforeValidator(spelled)] = None
    typical_p: One | None = None
    min_keep: Annotated[int, Field(ge=0, le=1)] | None = None
    dynatemp_range: Zero | None = None
    dynatemp_exponent: float | None = None  # harmless without a range
    xtc_probability: Zero | None = None
    xtc_threshold: float | None = None  # likewise
    top_n_sigma: Annotated[float, Field(le=0)] | None = None
    dry_multiplier: Zero | None = None
    dry_base: float | None = None  # harmless without a multiplier
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    lora: Annotated[list[JsonValue], Field(max_length=0)] | None = None
    timings_per_token: bool | None = None  # harmless: they are told at the end

    def sampling(self, usual: Sampling) -> Sampling:
        return listed(super().sampling(usual), self.samplers)


def listed(found: Sampling, names: Sequence[Sampler] | None) -> Sampling:
    """With only the samplers that are listed, if there is a list; their order stays ours.

    llama.cpp's "infill" keeps only tokens it is confident in: here that is the likeliest.
    """
    if names is None:
        return found
    temperature = found.temperature if "temperature" in names else 1.0
    penalises = "penalties" in names
    return Sampling(
        temperature=0.0 if "infill" in names else temperature,
        top_k=found.top_k if "top_k" in names else 0,
        top_p=found.top_p if "top_p" in names else 1.0,
        min_p=found.min_p if "min_p" in names else 0.0,
        repetition=found.repetition if penalises else 1.0,
        presence=found.presence if penalises else 0.0,
        frequency=found.frequency if penalises else 0.0,
        bias=found.bias,
    )
