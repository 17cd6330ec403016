"""For how long a client of Ollama's API wants a model to stay after it was used."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import PlainValidator

PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([a-zµ]*)")  # of a duration, as of 1h30m
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
MAX_KEPT = 10 * 365 * 86400.0  # seconds; a longer time is for ever


def as_seconds(value: object) -> float | None:
    """Read a duration; None where there is none, infinity for ever."""
    text = str(value).strip() if isinstance(value, str | int | float) else ""
    parts = PART.findall(text.removeprefix("-"))
    if "".join(map("".join, parts)) != text.removeprefix("-") or not text:
        return None
    if any(unit not in UNITS for _, unit in parts):
        return None
    seconds = sum(float(number) * UNITS[unit] for number, unit in parts)
    return math.inf if text.startswith("-") or seconds > MAX_KEPT else seconds


KeepAlive = Annotated[float | None, PlainValidator(as_seconds)]
