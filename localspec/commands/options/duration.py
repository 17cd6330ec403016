"""Durations as people write them."""

from __future__ import annotations

import re

import click

UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[a-z]+)\s*")


class Seconds(click.ParamType[float]):
    """A duration in seconds: 2h, 90min, 45s."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = DURATION.fullmatch(str(value).lower())
        if not match or match["unit"] not in UNITS or not float(match["number"]):
            self.fail(f"{value!r} is no duration: write 2h, 90min or 45s", param, ctx)
        return float(match["number"]) * UNITS[match["unit"]]
