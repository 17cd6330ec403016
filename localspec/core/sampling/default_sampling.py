"""The sampling of a model for requests that choose none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from localspec.core.sampling.parameters import GREEDY, PARAMETERS, Sampling

# Where nobody advises anything: what Ollama and llama.cpp do. Drawn from all that a small model
# finds possible, its text falls apart.
USUAL = Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)


class UsualSampling(NamedTuple):
    """The sampling of a model, and who advises it."""

    sampling: Sampling
    source: str

    def __str__(self) -> str:
        return f"{in_words(self.sampling)} ({self.source})"


NOBODY = UsualSampling(USUAL, "nobody advises another for this model")


def in_words(sampling: Sampling) -> str:
    """Name the parameters that have an effect."""
    return "greedy" if sampling.greedy else ", ".join(_effective(sampling))


def _effective(sampling: Sampling) -> Iterator[str]:
    for parameter in PARAMETERS:
        value = parameter.get(sampling)
        if value != parameter.neutral:
            yield f"{parameter.option} {value:g}"


def below(usual: Sampling, temperature: float | None) -> Sampling:
    """Return the sampling that a request's own parameters are put over.

    A temperature of 0 asks for the model's likeliest text: no penalty of its makers changes it.
    """
    return GREEDY if temperature == 0 else usual
