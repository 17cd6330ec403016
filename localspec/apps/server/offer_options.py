"""What options of `localspec serve` say of single models: other names, and how long they stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localspec.apps.server.offers import ServedOffer
from localspec.base.errors import UsageError


def with_aliases(offers: Sequence[ServedOffer], aliases: Sequence[str]) -> list[ServedOffer]:
    """Give offers their other names; an alias without a model is for the first."""
    by_name = {offer.name: offer for offer in offers}
    for option in aliases:
        alias, _, model = option.partition("=")
        model = model or offers[0].name
        if not alias or model not in by_name:
            raise UsageError(f"--alias {option} is for {model!r}; served: {', '.join(by_name)}")
        by_name[model] = replace(by_name[model], aliases=(*by_name[model].aliases, alias))
    return list(by_name.values())


def with_stays(
    offers: Sequence[ServedOffer], idle: Sequence[str], pinned: Sequence[str]
) -> list[ServedOffer]:
    """Note which models stay loaded, and how long others do."""
    times, names = idle_times(idle), [offer.name for offer in offers]
    named = [("--idle", name) for name in times if name] + [("--pin", name) for name in pinned]
    for option, name in named:
        if name not in names:
            raise UsageError(f"{option} is for {name!r}; served: {', '.join(names)}")
    return [
        replace(offer, pinned=offer.name in pinned, idle_seconds=times.get(offer.name))
        for offer in offers
    ]


def idle_times(options: Sequence[str]) -> dict[str, float]:
    """Read SECONDS for all models, under an empty name, and NAME=SECONDS for one."""
    times: dict[str, float] = {}
    for option in options:
        name, _, seconds = option.rpartition("=")
        try:
            times[name] = float(seconds)
        except ValueError:
            times[name] = 0.0
        if not times[name] > 0:
            raise UsageError(f"--idle {option} is no time: write SECONDS, or NAME=SECONDS")
    return times
