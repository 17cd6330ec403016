"""An option of loading that may be faster with another value, as an engine lists it."""

from __future__ import annotations

from typing import Any, NamedTuple

OptionValue = Any  # a number, a word, a switch, or None; a field of `Options` decides


class Coordinate(NamedTuple):
    """A field of `Options`, and values worth trying, in an order in which neighbours are alike."""

    option: str
    values: tuple[OptionValue, ...]
