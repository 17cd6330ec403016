"""Engines by name, as far as any are installed."""

from __future__ import annotations

import click

from localspec.models import engines


class Engine(click.ParamType[str]):
    """`auto`, or an engine's name; which there are is asked as late as that."""

    name = "engine"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        found = str(value)
        if found != engines.AUTO and found not in engines.names():
            known = ", ".join((engines.AUTO, *engines.names()))
            self.fail(f"{found!r} is no engine here; known: {known}", param, ctx)
        return found
