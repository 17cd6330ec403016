"""What a model's makers recommend, by its name in the catalogue."""

from __future__ import annotations

from collections.abc import Mapping

from localspec.models import catalogue
from localspec.sampling.parameters import Sampling
from localspec.sampling.table import PARAMETERS


def parameters(name: str) -> str:
    """Read how many parameters a model has from its name, as its makers write it."""
    entry = catalogue.entries().get(name.partition(":")[0])
    return entry.parameters if entry else ""


def prefixes(name: str) -> Mapping[str, str]:
    """Look up what a named model wants before a text, by what the text is."""
    entry = catalogue.entries().get(name.partition(":")[0])
    return entry.prefixes if entry else {}


def advised(name: str, otherwise: Sampling) -> Sampling:
    """Look up a named model's sampling in the catalogue."""
    entry = catalogue.entries().get(name.partition(":")[0])
    sampling = otherwise
    for parameter in PARAMETERS:
        if entry and parameter.key in entry.sampling:
            sampling = parameter.put(sampling, entry.sampling[parameter.key])
    return sampling
