"""A pair with the plan to load it by, which its engine was seen to run.

Drivers die of a kernel, or of batches from some width on. Each way to load a pair is tried in
another process, in which its widest batches are run. Where that dies on a GPU, another way is
taken: without flash attention, then narrower, then on the CPU unless a GPU was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from localspec.base.errors import ModelFileError, UsageError
from localspec.interfaces.backend import BATCH_MARGIN, BY_LAYER, Options
from localspec.running.memory.concessions import TEXT_ONLY
from localspec.running.memory.plan import Plan
from localspec.running.memory.planner import Limits, plan_pair
from localspec.running.models.trial import ResolvedModel
from localspec.running.models.trial_child import uses_gpu
from localspec.running.runtime.pair_files import ExaminedPair

# Tokens in a batch, at which drivers that die of wider ones were seen to work.
NARROW_BATCHES = 32, 8


@dataclass(frozen=True, slots=True)
class ResolvedPair:
    """A pair that runs here, the plan to load it by, and the names of its proposers."""

    target: ResolvedModel
    draft: ResolvedModel | None
    plan: Plan
    proposers: tuple[str, ...] = ()


class Way(NamedTuple):
    """A way to load a pair, in place of the one that was asked for."""

    change: str  # in words; empty: it is that one
    options: Options
    limits: Limits


def resolve_pair(
    examined: ExaminedPair, options: Options, limits: Limits, *, insists: bool
) -> ResolvedPair:
    """Plan for a pair by the first way that runs; `ModelFileError` names the first fault."""
    target, draft = examined
    if options.members > 1 and not target.files.engine.spec.group:
        raise UsageError(f"{target.files.engine} runs a model in one process only, not in a group")
    faults: list[str] = []
    for way in ways(options, limits):
        try:
            plan, fault = try_way(way, examined, insists=insists)
        except UsageError:
            if not faults:
                raise
            continue  # the model or the engine has no such way
        if not fault:
            plan = plan.noting(way.change, faults[0]) if faults else plan
            return ResolvedPair(target.resolve(), draft.resolve() if draft else None, plan)
        faults.append(fault)
        if not uses_gpu(target.engine.devices, plan.options):
            break
    raise ModelFileError(faults[0])


def try_way(way: Way, examined: ExaminedPair, *, insists: bool) -> tuple[Plan, str]:
    """Plan and try one way; return the plan and its fault, "" for none.

    A projector that nobody asked for is left out where it alone is at fault.
    """
    plan = plan_pair(*examined, way.options, way.limits, insists=insists)
    fault = fault_of(plan, examined)
    if fault and plan.options.projector != way.options.projector:
        limits = replace(way.limits, text_only=True)
        text_only = plan_pair(*examined, way.options, limits, insists=insists)
        if not fault_of(text_only, examined):
            return text_only.noting(TEXT_ONLY, fault), ""
    return plan, fault


def fault_of(plan: Plan, examined: ExaminedPair) -> str:
    """Run both files by a plan in other processes; return the first fault, or "" for none."""
    target, draft = examined
    free_bytes = plan.machine.available
    fault = target.fault(plan.options, free_bytes)
    if not fault and draft is not None and plan.drafting is not None:
        fault = draft.fault(plan.drafting, free_bytes)
    return fault


def ways(options: Options, limits: Limits) -> Iterator[Way]:
    """Yield the requested way, then ways that demand less and less of a driver."""
    yield Way("", options, limits)
    change = "in batches of at most {} tokens"
    if options.flash_attention is None:
        options = replace(options, flash_attention=False)
        yield Way("without flash attention", options, limits)
        change = f"without flash attention, {change}"
    for batch in NARROW_BATCHES:
        tentative = min(options.tentative, batch - BATCH_MARGIN)
        narrow = replace(options, batch=min(batch, options.batch), tentative=tentative)
        yield Way(change.format(batch), narrow, limits)
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
        or options.split_mode != BY_LAYER
        or options.cpu_moe
        or options.draft.device.isdecimal()
        or options.draft.gpu_layers
    )
