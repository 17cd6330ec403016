"""Types of options for the placement of layers."""

from __future__ import annotations

import click

AUTO = "auto"


class Shares(click.ParamType[tuple[float, ...]]):
    """Shares of GPUs: 3,1."""

    name = "shares"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        try:
            shares = tuple(float(share) for share in str(value).split(","))
        except ValueError:
            shares = ()
        if not shares or min(shares) < 0 or not 0 < sum(shares) < float("inf"):
            self.fail(f"{value!r} are no shares: write one for each GPU, e.g. 3,1", param, ctx)
        return shares


class Layers(click.ParamType[int | None]):
    """A number of layers, or auto."""

    name = "layers"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | None:
        if value == AUTO:
            return None
        if not str(value).isdecimal():
            self.fail(f"{value!r} is no number of layers, nor auto", param, ctx)
        return int(str(value))
