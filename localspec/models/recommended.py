"""How the makers of a model recommend to draw what it says."""

from __future__ import annotations

from localspec.models import catalogue
from localspec.sampling.parameters import PARAMETERS, Sampling


def parameters(name: str) -> str:
    """How many parameters a model by name has, as its makers write it."""
    entry = catalogue.entries().get(name.partition(":")[0])
    return entry.parameters if entry else ""


def advised(name: str, otherwise: Sampling) -> Sampling:
    """As the catalogue knows it of a model by name."""
    entry = catalogue.entries().get(name.partition(":")[0])
    found = otherwise
    for each in PARAMETERS:
        if entry and each.key in entry.sampling:
            found = each.put(found, entry.sampling[each.key])
    return found
