"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

import click
from click.types import FuncParamType

UNITS, LETTERS = {"": 1, "B": 1}, "KMGT"
for _power, _letter in enumerate(LETTERS, start=1):
    UNITS |= {_letter: 1024**_power, f"{_letter}IB": 1024**_power, f"{_letter}B": 1000**_power}
LEAST_WITHOUT_UNIT = 64 << 10  # bytes; fewer than that mean another unit that was left out
FORM = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-z]*)\s*", re.I)


def bytes_in(value: object) -> int:
    """Read a number of bytes: 8GiB, 8GB, 512M."""
    match = FORM.fullmatch(str(value))
    if not match or match["unit"].upper() not in UNITS:
        raise ValueError(f"{value!r} is no size: write 8GiB, 8GB or 512MiB")
    count = int(float(match["number"]) * UNITS[match["unit"].upper()])
    if not match["unit"] and 0 < count < LEAST_WITHOUT_UNIT:
        raise ValueError(f"{count} bytes? give {count}MiB or {count}GiB; or {count}B, if so few")
    return count


SIZE: click.ParamType[int] = FuncParamType(bytes_in)


def in_units(count: int) -> str:
    """Write a number of bytes as it may be typed, in the largest unit that divides it."""
    power = max(at for at in range(len(LETTERS) + 1) if count % 1024**at == 0)
    return f"{count >> 10 * power}{LETTERS[power - 1]}iB" if power else str(count)
