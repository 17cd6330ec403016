"""Make a plan from files and options: the needs by the engines, and the free memory here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.base.errors import UsageError
from localspec.base.system import free_memory
from localspec.interfaces.backend import (
    BY_LAYER,
    CELLS,
    CONTEXT,
    Device,
    DraftOptions,
    Options,
    check_device,
    within,
)
from localspec.running.memory.concessions import TEXT_ONLY
from localspec.running.memory.machine import Machine, Pool, size
from localspec.running.memory.plan import Plan, plan
from localspec.running.memory.plan_request import PlanRequest
from localspec.running.memory.wider_batch import worthy_batch
from localspec.running.models.engines import Engine, all_engines

if TYPE_CHECKING:  # numpy, which `localspec list` does without
    from localspec.running.models.trial import Examined

MAX_MODEL_DRAFT = 16  # tokens that a draft model verifies or fills in at once


@dataclass(frozen=True, slots=True)
class Limits:
    """The devices that models may use, and how much memory.

    device: "auto", "cpu", or the number of a GPU
    budget: bytes that may be taken; None: all but a reserve
    supposed: the budget is another machine's, not a part of this one's
    main_gpu: the GPU for a model that one can hold, and for draft models
    text_only: a projector that lies beside a model stays there
    widens: a plan may take a wider batch than the usual one, where an engine gains by it
    """

    device: str = "auto"
    budget: int | None = None
    supposed: bool = False
    main_gpu: int | None = None
    text_only: bool = False
    widens: bool = True

    def __post_init__(self) -> None:
        check_device(self.device)
        within("budget", self.budget, 1, 1 << 62)


def plan_pair(
    target: Examined, draft: Examined | None, options: Options, limits: Limits, *, insists: bool
) -> Plan:
    """Plan how to load a pair here; `insists` on the draft model."""
    require_projectors(target, options)
    machine = machine_within(target.engine.devices, limits)
    if draft is not None and draft.footprint().drafter:
        options, draft = replace(options, head=draft.files.path), None
    if draft is not None:
        machine = for_draft(machine, options.draft, limits)
    if limits.device == "cpu":
        options = on_cpu(target.engine.devices, options)
    if options.split and len(options.split) != len(machine.gpus):
        shares = f"--split has {len(options.split)} shares"
        raise UsageError(f"{shares}, and GPUs are {len(machine.gpus)}: give one for each")
    options = divided(options, len(machine.gpus))
    trained = target.footprint().context or CELLS
    batches = open_batches(target, options, limits)
    request = PlanRequest(
        target.needs,
        replace(options, draft=DraftOptions()),  # no matter for what the target is and does
        min(trained, CONTEXT),
        draft.needs if draft is not None else None,
        drafting_options(options, target, draft, machine, limits),
        insists,
        trained,
        open_projector(target, options, limits),
        batches,
        worthy_batch(target.footprint(), batches, target.engine.devices),
    )
    pair_plan = plan(request, machine)
    for change, why in unused(target, options, limits, machine):
        pair_plan = pair_plan.noting(change, why)
    return pair_plan


def divided(options: Options, gpus: int) -> Options:
    """Divide the rows of matrices among all GPUs, where no shares of them are named."""
    if options.split_mode == BY_LAYER:
        return options
    gpus = 0 if options.gpu_layers == 0 else gpus
    if gpus < 2:
        raise UsageError(
            f"--split-mode {options.split_mode} divides a model among GPUs, and here "
            f"{'is 1' if gpus == 1 else f'are {gpus}'} for it: omit it"
        )
    return replace(options, split=options.split or (1.0,) * gpus)


def unused(
    target: Examined, options: Options, limits: Limits, machine: Machine
) -> Iterator[tuple[str, str]]:
    """Yield what is there for a model and cannot be used, with the reasons."""
    if target.files.blind and not options.projector and not limits.text_only:
        yield TEXT_ONLY, target.files.blind
    build = target.engine.build
    if build.unseen and limits.device == "auto" and not machine.gpus:
        why = f": {build.why_unseen}" if build.why_unseen else ""
        yield "on the CPU", f"built for {', '.join(build.unseen)}, of which none is seen{why}"


def drafting_options(
    options: Options, target: Examined, draft: Examined | None, machine: Machine, limits: Limits
) -> Options:
    """Return the options of a draft model beside a target with these."""
    own = options.draft
    drafting = replace(
        options,
        drafting=True,
        tentative=min(options.tentative, MAX_MODEL_DRAFT),
        members=1,
        adapters=(),
        bit_exact=False,
        split=(),
        split_mode=BY_LAYER,
        micro_batch=None,
        cpu_moe=None,
        head=None,
        projector=None,
    )
    if draft is None:
        return drafting
    if draft.files.engine != target.files.engine:  # it may not know these
        drafting = replace(drafting, gpu_layers=None, flash_attention=None, compute="auto")
        drafting = replace(drafting, threads=None, threads_batch=None, mlock=False, direct_io=False)
    inherits = own.gpu_layers is None and not own.device.isdecimal()
    layers = drafting.gpu_layers if inherits else own.gpu_layers
    drafting = replace(
        drafting,
        gpu_layers=0 if machine.gpus and machine.home is None else layers,
        kv_type=own.kv_type or options.kv_type,
        threads=own.threads or drafting.threads,
        threads_batch=None if own.threads else drafting.threads_batch,
        draft=replace(own, context=min(own.context, draft.footprint().context or own.context)),
    )
    if "cpu" in (limits.device, own.device):
        return on_cpu(draft.engine.devices, replace(drafting, gpu_layers=own.gpu_layers))
    return drafting


def for_draft(machine: Machine, own: DraftOptions, limits: Limits) -> Machine:
    """Return the machine with the device for a draft model that was asked for."""
    if limits.device not in ("auto", own.device) and own.device.isdecimal():
        raise UsageError(
            f"the draft model is for GPU {own.device}, and --device {limits.device} is for both "
            "models: keep the other one off that GPU by --split in place of --device"
        )
    return machine.drafting_on("cpu" if own.gpu_layers == 0 else own.device)


def require_projectors(target: Examined, options: Options) -> None:
    """Refuse a projector for an engine that takes none."""
    engine = target.files.engine
    if options.projector and engine.spec.projectors is None:
        able = ", ".join(other.spec.kind for other in all_engines() if other.spec.projectors)
        raise UsageError(
            f"{engine} takes no projector ({options.projector.name}), its models read text only: "
            f"give the same model as {able}"
        )


def open_batches(target: Examined, options: Options, limits: Limits) -> tuple[int, ...]:
    """Return the batches that options leave to a plan, where a GPU computes."""
    has_gpu = any("gpu" in device.kind for device in target.engine.devices)
    is_open = limits.widens and options.batch == Options().batch
    if not (is_open and has_gpu) or options.gpu_layers == 0:
        return ()
    return target.files.engine.spec.wide_batches


def open_projector(target: Examined, options: Options, limits: Limits) -> Path | None:
    """Return the projector that lies beside a model and is loaded if there is room for it."""
    if options.projector or limits.text_only or target.footprint().kind != "text":
        return None
    return target.files.projector


def current_machine(engine: Engine, limits: Limits) -> Machine:
    """Return the memory that an engine could use now, within limits."""
    return machine_within(engine.backend().probe(), limits)


def machine_within(devices: Sequence[Device], limits: Limits) -> Machine:
    """Return the memory of these devices, and the host's as it is now, within limits."""
    machine = Machine.of(free_memory.memory(), devices)
    if limits.device.isdecimal():
        machine = machine.only(int(limits.device))
    if limits.main_gpu is not None:
        machine = machine.led_by(limits.main_gpu)
    if limits.budget is not None:
        most = machine.instead if limits.supposed else machine.within
        machine = most(limits.budget)
    return machine


def on_cpu(devices: Sequence[Device], options: Options) -> Options:
    """Put everything on the host; an engine that needs a GPU refuses when it computes needs."""
    if options.gpu_layers:
        raise UsageError("--gpu-layers are for a GPU, and --device cpu is for none: omit one")
    has_gpu = any("gpu" in device.kind for device in devices)
    return replace(options, gpu_layers=0) if has_gpu else options


def in_use(plan: Plan, machine: Machine) -> list[Pool]:
    """List the memories that a plan uses, as free as a machine says."""
    names = {pool.name for pool in plan.pools}
    return [pool for pool in (*machine.gpus, machine.host) if pool.name in names]


class Watcher:
    """Watches for a shortage of memory while models run."""

    def __init__(
        self,
        plan: Plan,
        look: Callable[[], Machine],
        stalls: Callable[[], float] = free_memory.stalls,
    ) -> None:
        self._plan = plan
        self._look, self._stalls = look, stalls

    def shortage(self) -> str:
        """Name the memory that is short, and the bytes left there; empty if none is."""
        for pool in in_use(self._plan, self._look()):
            if pool.free < pool.reserve // 2:
                return f"{size(pool.free)} are left in {pool.name}"
        waited = self._stalls()
        if waited > free_memory.MAX_STALLED:
            return f"{waited:.0%} of all time goes into waiting for memory"
        return ""

    def has_room(self, count: int) -> bool:
        """Whether so many bytes would leave the reserves alone."""
        return all(pool.available >= count for pool in in_use(self._plan, self._look()))
