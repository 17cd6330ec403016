"""The samplers by name, and the order in which they work."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

MIN_TEMPERATURE = 1e-4  # below it, sampling is greedy: quotients of logits would leave 32 bits
MAX_XTC_THRESHOLD = 0.5  # above it, no two tokens can reach it
LETTERS = {  # of llama.cpp
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
    "a": "adaptive_p",
}
NAMES = {name.replace("_", ""): name for name in LETTERS.values()} | {
    "nucleus": "top_p",
    "temp": "temperature",
    "typ": "typ_p",
    "typical": "typ_p",
    "typicalp": "typ_p",
}
ORDER = (  # where none is named; llama.cpp's server puts the temperature last
    *("penalties", "dry", "top_n_sigma", "temperature", "top_k", "typ_p", "top_p", "min_p"),
    *("xtc", "adaptive_p"),
)
SHIFTS = ("penalties", "dry")  # which change logits by the text before
FILTERS = ("temperature", "top_k", "top_p", "min_p")  # which have a short way, in this order
MAY_DROP_BEST = ("typ_p", "xtc", *SHIFTS)  # after them the highest logit may be another's
OF_TEXT = ("xtc", "mirostat", "adaptive_p", *SHIFTS)  # which need more than logits


class Steps(NamedTuple):
    """The samplers that have something to do, in their order."""

    shifts: tuple[str, ...]  # those of SHIFTS that come before any token is left out
    cuts: tuple[str, ...]  # all after them
    greedy: bool  # whether the cuts leave the highest logit alone
    simple: bool  # whether the cuts are FILTERS in their usual order, or greedy
    pure: bool  # whether the cuts look at logits alone


def sampler_name(text: str) -> str | None:
    """Return the sampler that goes by a name, as llama.cpp spells it or others do."""
    return NAMES.get(re.sub("[-_ ]", "", text.lower()))


def known_samplers(names: Iterable[str]) -> tuple[str, ...]:
    """Leave out the names that no sampler goes by; each sampler is there once."""
    return tuple(dict.fromkeys(filter(None, map(sampler_name, names))))


def split_samplers(text: str) -> list[str]:
    """Read names with semicolons between them, or a letter for each sampler."""
    if ";" in text or "_" in text or text in NAMES.values():
        return [name for name in text.split(";") if name.strip()]
    return [LETTERS.get(letter, letter) for letter in text]
