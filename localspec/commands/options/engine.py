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
        engine = str(value)
        if engine != engines.AUTO and engine not in engines.names():
            choices = ", ".join((engines.AUTO, *engines.names()))
            self.fail(f"{engine!r} is no engine here; known: {choices}", param, ctx)
        return engine
