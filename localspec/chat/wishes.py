"""Settings that /set can change, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.proposers import registry
from localspec.sampling.parameters import PARAMETERS, Parameter, Sampling

AUTO = "auto"
SAMPLING = {each.field: each for each in PARAMETERS}


def whole(text: str) -> int | None:
    return None if text == AUTO else int(text)


OTHERS: Mapping[str, Callable[[Settings, str], Settings]] = {
    "seed": lambda settings, text: replace(settings, seed=whole(text)),
    "max_tokens": lambda settings, text: replace(settings, max_tokens=whole(text)),
    "depth": lambda settings, text: replace(settings, depth=whole(text)),
    "proposers": lambda settings, text: replace(
        settings, proposers=None if text == AUTO else registry.check(text)
    ),
    "stop": lambda settings, text: replace(settings, stop=() if text == AUTO else (text,)),
}
NAMES = (*SAMPLING, *OTHERS)


def wished(usual: Settings, wishes: Mapping[str, str]) -> Settings:
    """Apply settings to the usual ones; a sampling parameter that is `auto` is as usual."""
    found = usual
    for name, text in wishes.items():
        try:
            if name in OTHERS:
                found = OTHERS[name](found, text)
            elif name in SAMPLING and text != AUTO:
                found = replace(found, sampling=drawn(found.sampling, SAMPLING[name], text))
            elif name not in SAMPLING:
                raise UsageError(f"there is no {name!r} to set; there are: {', '.join(NAMES)}")
        except ValueError as error:
            raise UsageError(f"{name} takes a number, or {AUTO}, not {text!r}") from error
    return found


def drawn(sampling: Sampling, parameter: Parameter, text: str) -> Sampling:
    return parameter.put(sampling, int(text) if parameter.whole else float(text))


def shown(settings: Settings) -> dict[str, str]:
    """Map each setting to its value."""
    who = settings.proposers
    found: Mapping[str, float | str | None] = {
        **{name: each.get(settings.sampling) for name, each in SAMPLING.items()},
        "seed": settings.seed,
        "max_tokens": settings.max_tokens,
        "depth": settings.depth,
        "proposers": None if who is None else ",".join(who) or "none",
        "stop": settings.stop[0] if settings.stop else None,
    }
    return {name: AUTO if value is None else str(value) for name, value in found.items()}
