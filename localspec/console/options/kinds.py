"""The types of options that take more than a text or a number."""

from __future__ import annotations

from pathlib import Path

import click
from click.types import FuncParamType

from localspec.base.errors import UsageError
from localspec.interfaces.adapter import Adapter
from localspec.running.models import engines


def engine(value: object) -> str:
    """Read `auto`, or an engine's name; which there are is asked as late as that."""
    if value != engines.AUTO and value not in engines.names():
        choices = ", ".join((engines.AUTO, *engines.names()))
        raise ValueError(f"{value!r} is no engine here; known: {choices}")
    return str(value)


def shares(value: object) -> tuple[float, ...]:
    """Read the shares of GPUs: 3,1."""
    try:
        shares = tuple(float(share) for share in str(value).split(","))
    except ValueError:
        shares = ()
    if not shares or min(shares) < 0 or not 0 < sum(shares) < float("inf"):
        raise ValueError(f"{value!r} are no shares: write one for each GPU, e.g. 3,1")
    return shares


def layers(value: object) -> int | None:
    """Read a number of layers, or auto."""
    if value == engines.AUTO:
        return None
    if not str(value).isdecimal():
        raise ValueError(f"{value!r} is no number of layers, nor auto")
    return int(str(value))


def adapter(value: object) -> Adapter:
    """Read a path, which may have colons of its own, or PATH:SCALE."""
    try:
        adapter = value if isinstance(value, Adapter) else parse_adapter(str(value))
    except UsageError as error:
        raise ValueError(str(error)) from error
    if not adapter.path.exists():
        raise ValueError(f"{adapter.path} does not exist: check the path")
    return adapter


def parse_adapter(text: str) -> Adapter:
    path, _, scale = text.rpartition(":")
    try:
        number = float(scale)
    except ValueError:
        number = None
    if number is None or not path or Path(text).exists():
        return Adapter(Path(text))
    return Adapter(Path(path), number)


ENGINE: click.ParamType[str] = FuncParamType(engine)
SHARES: click.ParamType[tuple[float, ...]] = FuncParamType(shares)
LAYERS: click.ParamType[int | None] = FuncParamType(layers)
ADAPTER: click.ParamType[Adapter] = FuncParamType(adapter)
