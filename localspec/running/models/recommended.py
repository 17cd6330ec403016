"""What is recommended for a model, by its name in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from localspec.core.sampling.parameters import Sampling
from localspec.core.sampling.table import PARAMETERS
from localspec.running.models import catalogue


def parameters(name: str) -> str:
    """Read how many parameters a model has from its name, as its makers write it."""
    entry = catalogue.entries().get(name.partition(":")[0])
    return entry.parameters if entry else ""


def prefixes(name: str) -> Mapping[str, str]:
    """Look up what a named model wants before a text, by what the text is."""
    entry = catalogue.entries().get(name.partition(":")[0])
    return entry.prefixes if entry else {}


class ThoughtDefaults(NamedTuple):
    """A budget for thought, and the text that ends a thought; None where nobody chose."""

    budget: int | None = None
    message: str | None = None


def thought_defaults(name: str, chosen: ThoughtDefaults) -> ThoughtDefaults:
    """Look up what is not chosen in the catalogue."""
    entry, (budget, message) = catalogue.entries().get(name.partition(":")[0]), chosen
    if entry and budget is None and entry.reasoning_budget >= 0:
        budget = entry.reasoning_budget
    if entry and message is None:
        message = entry.reasoning_budget_message or None
    return ThoughtDefaults(budget, message)


def recommended_sampling(name: str, otherwise: Sampling) -> Sampling:
    """Look up a named model's sampling in the catalogue."""
    entry = catalogue.entries().get(name.partition(":")[0])
    sampling = otherwise
    for parameter in PARAMETERS:
        if entry and parameter.key in entry.sampling:
            sampling = parameter.put(sampling, entry.sampling[parameter.key])
    return replace(sampling, samplers=entry.samplers) if entry and entry.samplers else sampling
