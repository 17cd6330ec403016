"""What can be wished of answers with /set, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace

from localspec import guessers
from localspec.errors import UsageError
from localspec.sampling import Sampling
from localspec.settings import Settings

OFF = "off"
SAMPLING: Mapping[str, Callable[[str], float]] = {
    "temperature": float,
    "top_k": int,
    "top_p": float,
    "min_p": float,
    "repetition": float,
    "presence": float,
    "frequency": float,
}


def whole(text: str) -> int | None:
    return None if text == OFF else int(text)


OTHERS: Mapping[str, Callable[[Settings, str], Settings]] = {
    "seed": lambda settings, text: replace(settings, seed=whole(text)),
    "max_tokens": lambda settings, text: replace(settings, max_tokens=whole(text)),
    "depth": lambda settings, text: replace(settings, depth=whole(text)),
    "proposers": lambda settings, text: replace(
        settings, proposers=None if text == OFF else guessers.check(text)
    ),
    "stop": lambda settings, text: replace(settings, stop=() if text == OFF else (text,)),
}
NAMES = (*SAMPLING, *OTHERS)


def wished(usual: Settings, wishes: Mapping[str, str]) -> Settings:
    """What is usual, but for these. A way to draw that is `off` is as usual."""
    found = usual
    for name, text in wishes.items():
        try:
            if name in OTHERS:
                found = OTHERS[name](found, text)
            elif name in SAMPLING and text != OFF:
                drawn = {**asdict(found.sampling), name: SAMPLING[name](text)}
                found = replace(found, sampling=Sampling(**drawn))
            elif name not in SAMPLING:
                raise UsageError(f"there is no {name!r} to set; there are: {', '.join(NAMES)}")
        except ValueError as error:
            raise UsageError(f"{name} takes a number, or {OFF}, not {text!r}") from error
    return found


def shown(settings: Settings) -> dict[str, str]:
    """Each of them and how it is."""
    drawn = asdict(settings.sampling)
    others = {
        "seed": settings.seed,
        "max_tokens": settings.max_tokens,
        "depth": settings.depth,
        "proposers": ",".join(settings.proposers) if settings.proposers else None,
        "stop": settings.stop[0] if settings.stop else None,
    }
    told = {name: OFF if value is None else str(value) for name, value in others.items()}
    return {name: f"{drawn[name]:g}" for name in SAMPLING} | told
