"""How the makers of a model recommend to draw what it says."""

from __future__ import annotations

from dataclasses import replace

from localspec.models import catalogue
from localspec.sampling.parameters import Sampling


def advised(name: str, otherwise: Sampling) -> Sampling:
    """As the catalogue knows it of a model by name."""
    entry = catalogue.entries().get(name.partition(":")[0])
    told = dict(entry.sampling) if entry else {}
    return replace(
        otherwise,
        temperature=told.get("temperature", otherwise.temperature),
        top_k=int(told.get("top-k", otherwise.top_k)),
        top_p=told.get("top-p", otherwise.top_p),
        min_p=told.get("min-p", otherwise.min_p),
        repetition=told.get("repetition", otherwise.repetition),
        presence=told.get("presence", otherwise.presence),
        frequency=told.get("frequency", otherwise.frequency),
    )
