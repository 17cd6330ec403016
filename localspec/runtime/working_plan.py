"""The plan for a pair, by which a GPU's driver is seen to run it.

Drivers die of a kernel, or of batches from some width on. Each way to load a pair is tried in
another process, in which its widest batches are run. Where that dies on a GPU, another way is
taken: without flash attention, then narrower, then on the CPU unless a GPU was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from localspec.backend import Options
from localspec.errors import ModelFileError, UsageError
from localspec.memory.plan import Plan
from localspec.memory.planner import Limits, planned
from localspec.models.trial import Examined
from localspec.models.trial_child import uses_gpu

NARROW = (32, 8)  # tokens in a batch, at which drivers that die of wider ones were seen to work
MARGIN = 2  # tokens of a batch besides those that are tentative


class Way(NamedTuple):
    """A way to load a pair, in place of the one that was asked for."""

    what: str  # empty: it is that one
    options: Options
    limits: Limits


def working_plan(
    target: Examined, draft: Examined | None, options: Options, limits: Limits, *, insists: bool
) -> Plan:
    """Plan for a pair by the first way that runs; `ModelFileError` names the first fault."""
    faults: list[str] = []
    for way in ways(options, limits):
        try:
            plan = planned(target, draft, way.options, way.limits, insists=insists)
            fault = fault_of(plan, target, draft)
        except UsageError:
            if not faults:
                raise
            continue  # the model or the engine has no such way
        if not fault:
            return plan.noting(way.what, faults[0]) if faults else plan
        faults.append(fault)
        if not uses_gpu(target.engine.devices, plan.options):
            break
    raise ModelFileError(faults[0])


def fault_of(plan: Plan, target: Examined, draft: Examined | None) -> str:
    """Say of what a pair died that was loaded by a plan; empty: it runs."""
    room = plan.machine.room
    fault = target.fault(plan.options, room)
    if not fault and draft is not None and plan.drafting is not None:
        fault = draft.fault(plan.drafting, room)
    return fault


def ways(options: Options, limits: Limits) -> Iterator[Way]:
    yield Way("", options, limits)
    what = "in batches of at most {} tokens"
    if options.flash_attention is None:
        options = replace(options, flash_attention=False)
        yield Way("without flash attention", options, limits)
        what = f"without flash attention, {what}"
    for batch in NARROW:
        tentative = min(options.tentative, batch - MARGIN)
        narrow = replace(options, batch=min(batch, options.batch), tentative=tentative)
        yield Way(what.format(batch), narrow, limits)
    if not asks_for_gpu(options, limits):
        yield Way(
            "on the CPU", replace(options, flash_attention=None), replace(limits, device="cpu")
        )


def asks_for_gpu(options: Options, limits: Limits) -> bool:
    return bool(
        limits.device.isdecimal()
        or limits.main_gpu is not None
        or options.gpu_layers is not None
        or options.split
        or options.cpu_moe
    )
