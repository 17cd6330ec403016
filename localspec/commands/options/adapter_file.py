"""The type of the option --adapter: a file or folder, and a scale behind a colon."""

from __future__ import annotations

from pathlib import Path

import click

from localspec.adapter import Adapter
from localspec.errors import UsageError


class AdapterFile(click.ParamType[Adapter]):
    """A path, which may have colons of its own, or PATH:SCALE."""

    name = "adapter"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Adapter:
        try:
            adapter = value if isinstance(value, Adapter) else parsed(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if not adapter.path.exists():
            self.fail(f"{adapter.path} does not exist: check the path", param, ctx)
        return adapter


def parsed(text: str) -> Adapter:
    path, _, scale = text.rpartition(":")
    try:
        number = float(scale)
    except ValueError:
        number = None
    if number is None or not path or Path(text).exists():
        return Adapter(Path(text))
    return Adapter(Path(path), number)
