"""Longer pieces of prompts, where an engine gains by them and memory is left.

Of a mixture each expert gets a share of a piece: of 512 tokens 32, by which a GPU is half idle.
An M1 Pro read 5,000 tokens with Qwen3-Coder-30B-A3B in 23.4 s by 512 and in 19.6 s by 2,048. A
dense model gained nothing, or little, and takes no more than a part of what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from localspec.base.device import Device
from localspec.base.system import chips
from localspec.interfaces.footprint import Footprint
from localspec.running.memory.machine import Machine
from localspec.running.memory.placement import Placement

if TYPE_CHECKING:
    from localspec.running.memory.plan_request import PlanRequest

SPARE_SHARE = 0.25  # of the memory that is left
# Apple's M5 has a kernel for heads so wide, from so many tokens on.
LATE_GENERATION, LATE_WIDTH, LATE_TOKENS = 5, 256, 1024


def worthy_batch(footprint: Footprint, batches: tuple[int, ...], devices: Sequence[Device]) -> int:
    """Return the tokens up to which a model deserves all the room that is left."""
    if footprint.experts:
        return max(batches, default=0)
    late = any(chips.generation(device.name) >= LATE_GENERATION for device in devices)
    return LATE_TOKENS if late and footprint.head_width == LATE_WIDTH else 0


def widened(request: PlanRequest, fit: Placement, machine: Machine) -> Placement:
    """Widen the batch of a placement that fits, as far as there is room.

    Where attention writes scores down, a wider batch takes the more, the longer the context is.
    """
    if fit.short:
        return fit
    taken = sum(item.bytes for item in fit.items)
    for batch in request.wide_batches:
        wider = request.place_with(fit, machine, batch=batch)
        added = sum(item.bytes for item in wider.items) - taken
        spare = SPARE_SHARE * (machine.available - taken)
        if not wider.short and (batch <= request.worthy_batch or added <= spare):
            return wider
    return fit
