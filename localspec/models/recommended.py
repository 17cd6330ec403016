"""How the makers of a model recommend to draw what it says."""

from __future__ import annotations

from localspec.models import catalogue
from localspec.sampling.parameters import PARAMETERS, Sampling


def advised(name: str, otherwise: Sampling) -> Sampling:
    """As the catalogue knows it of a model by name."""
    entry = catalogue.entries().get(name.partition(":")[0])
    found = otherwise
    for each in PARAMETERS:
        if entry and each.key in entry.sampling:
            found = each.put(found, entry.sampling[each.key])
    return found
