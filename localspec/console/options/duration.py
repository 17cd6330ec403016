"""Durations as people write them."""

from __future__ import annotations

import re

from localspec.base.errors import UsageError

UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-z]+)\s*")


def seconds_in(text: str) -> float:
    """Read a duration: 2h, 90min, 45s."""
    match = DURATION.fullmatch(text.lower())
    if not match or match["unit"] not in UNITS or not float(match["number"]):
        raise UsageError(f"a duration is {text!r}: write it as 2h, 90min or 45s")
    return float(match["number"]) * UNITS[match["unit"]]
