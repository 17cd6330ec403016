"""What is recommended for a model: by its name in the catalogue, or by its files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from localspec.base.errors import UsageError
from localspec.core.sampling.default_sampling import NOBODY, USUAL, UsualSampling
from localspec.core.sampling.order import known_samplers, split_samplers
from localspec.core.sampling.parameters import PARAMETERS, Sampling
from localspec.interfaces.footprint import Footprint
from localspec.running.models import catalogue
from localspec.running.models.entry import Entry

# How many parameters a model has, as a word of its name, and the words after that.
SIZE = re.compile(r"[-_. ](?:e|\d+x)?\d+(?:\.\d+)?[mb](?![a-z0-9]).*", re.IGNORECASE)


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


def usual_sampling(name: str, footprint: Footprint) -> UsualSampling:
    """Find the sampling of a model: the catalogue's, its files', its family's, or the usual one.

    name: its name in the catalogue; that of a path is in none
    """
    listed = catalogue.entries()
    entry = listed.get(name.partition(":")[0])
    if entry and (entry.sampling or entry.samplers):
        return UsualSampling(recommended(entry), "as its makers advise")
    if advised := readable(footprint):
        return UsualSampling(advised, "as its files advise")
    relative = relative_of(footprint, listed)
    if relative:
        return UsualSampling(recommended(relative), f"as the makers of {relative.name} advise")
    return NOBODY


def recommended_by_name(name: str) -> Sampling:
    """Look up the sampling of a model whose files are elsewhere."""
    entry = catalogue.entries().get(name.partition(":")[0])
    return recommended(entry) if entry and entry.sampling else USUAL


def recommended(entry: Entry) -> Sampling:
    """Read the sampling of an entry; what it does not name has no effect."""
    sampling = Sampling(temperature=1.0)
    for parameter in PARAMETERS:
        if parameter.key in entry.sampling:
            sampling = parameter.put(sampling, entry.sampling[parameter.key])
    return replace(sampling, samplers=entry.samplers) if entry.samplers else sampling


def readable(footprint: Footprint) -> Sampling | None:
    """Put what files advise over the usual sampling; None where it is nothing, or out of bounds."""
    sampling, values = USUAL, footprint.sampling
    samplers = known_samplers(split_samplers(footprint.samplers))
    advised = [one for one in PARAMETERS if one.field in values]
    try:
        for parameter in advised:
            sampling = parameter.put(sampling, values[parameter.field])
    except (UsageError, ValueError, OverflowError):
        return None
    if samplers:
        return replace(sampling, samplers=samplers)
    return sampling if advised else None


def relative_of(footprint: Footprint, listed: Mapping[str, Entry]) -> Entry | None:
    """Find an entry for another size of the same model, by the name without it.

    A family that reasons has members that do not: their templates open no thought.
    """
    base = base_of(footprint.basename or footprint.name)
    thinks = "think" in (footprint.chat_template or "")
    relatives = (
        entry
        for entry in listed.values()
        if entry.sampling and entry.kind == "text" and base_of(entry.original) == base
    )
    return next((entry for entry in relatives if thinks or not entry.reasons), None)


def base_of(name: str) -> str:
    """Reduce a model's name to its beginning: "Meta Llama 3.1 8B Instruct" to "llama-3.1"."""
    words = re.split(r"[-_ ]+", SIZE.sub("", name.rpartition("/")[2]).lower())
    return "-".join(words[1:] if words[0] == "meta" else words)
