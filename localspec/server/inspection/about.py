"""What a client may do here, and the parameters that texts are sampled by."""

from __future__ import annotations

from importlib.metadata import version

from localspec.sampling.lists import LISTS
from localspec.sampling.table import PARAMETERS, Parameter

Object = dict[str, object]


def about(*, manage: bool, bench: bool) -> Object:
    return {
        "version": version("localspec"),
        "manage": manage,
        "bench": bench,
        "parameters": [described(parameter) for parameter in PARAMETERS],
        "lists": [{"name": texts.name, "about": texts.about} for texts in LISTS],
    }


def described(parameter: Parameter) -> Object:
    """Describe a number of sampling, with the bounds for people, by its name in llama.cpp."""
    low, high = parameter.sensible or parameter.bounds
    return {
        "name": parameter.names[-1],
        "about": parameter.about,
        "low": low,
        "high": high,
        "whole": parameter.whole,
    }
