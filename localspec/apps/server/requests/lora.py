"""The field `lora` of requests: scales of adapters, as llama.cpp's server takes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from localspec.apps.server.requests.leniency import RequestPart
from localspec.interfaces.adapter import MAX_SCALE

MAX_ADAPTERS = 256  # in one list


class LoraScale(RequestPart):
    id: int
    scale: float = Field(ge=-MAX_SCALE, le=MAX_SCALE)


LoraScales = Annotated[list[LoraScale], Field(max_length=MAX_ADAPTERS)]


def by_number(listed: Iterable[LoraScale]) -> dict[int, float]:
    """Return the scale of each adapter; of several for one the last counts."""
    return {lora.id: lora.scale for lora in listed}
