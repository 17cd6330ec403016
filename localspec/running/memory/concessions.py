"""Concede options one by one, until a pair fits into memory.

Options that were given are never conceded. The others go in this order: context beyond 16,384
tokens; the draft model; context beyond 8,192; the target's KV cache to 8 bits; a projector on a
GPU; context beyond 4,096; experts on GPUs; layers on GPUs; a projector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from localspec.base.errors import LocalSpecError, UsageError
from localspec.running.memory.machine import Machine, size
from localspec.running.memory.placement import PairOptions, Placement, on_gpus
from localspec.running.memory.plan_request import PlanRequest

ROOMY_CONTEXT, MODEST_CONTEXT, MIN_CONTEXT = 16_384, 8192, 4096
CONTEXT_STEP = 256  # tokens by which a context is cut
EIGHT_BITS = "q8_0"
NO_DRAFT = "no draft model: prompt lookup drafts instead"
NO_HEAD = "no drafting head: prompt lookup drafts instead"
TEXT_ONLY = "text only"


@dataclass(frozen=True, slots=True)
class Concession:
    what: str
    why: str


Conceded = tuple[str, Placement] | None


def concede(request: PlanRequest, machine: Machine) -> tuple[Placement, list[Concession]]:
    """Concede until it fits, or as much as possible; return the placement and the concessions."""
    fit, concessions = without_concessions(request, machine)
    for step in STEPS:
        if not fit.short:
            break
        try:
            conceded = step(request, fit, machine)
        except UsageError:  # the model or the engine has no such way
            continue
        if conceded:
            change, smaller = conceded
            why = f"{size(fit.short)} too much for {fit.short_pool}"
            if not concessions and (advice := advice_for(fit, machine)):
                why = f"{why}; {advice}"
            concessions.append(Concession(change, why))
            fit = smaller
    return fit, concessions


def advice_for(fit: Placement, machine: Machine) -> str:
    """Name what would make nothing of a shortage, if anything does."""
    return machine.host.advice(fit.short) if fit.short_pool == machine.host.name else ""


def without_concessions(
    request: PlanRequest, machine: Machine
) -> tuple[Placement, list[Concession]]:
    """Place all that was asked for, but for a projector that its engine refuses."""
    options = PairOptions(request.options, request.drafting if request.draft else None)
    options = options.with_both(context=request.options.context or request.context)
    refused: list[Concession] = []
    if request.projector:
        seeing = options.with_target(projector=request.projector)
        try:
            request.target(seeing.target)
            options = seeing
        except LocalSpecError as error:
            refused = [Concession(TEXT_ONLY, str(error))]
    return request.place(choose_cache(request, options, machine), machine), refused


def choose_cache(request: PlanRequest, options: PairOptions, machine: Machine) -> PairOptions:
    """Choose a KV cache per slot if half of the free memory is enough, else one for all slots.

    The cache of a slot holds one text, and so at most as many tokens as the model was trained for.
    """
    if options.target.slots == 1 or options.target.shared is not None:
        return options
    separate, common = options.with_both(shared=False), options.with_both(shared=True)
    if request.place(separate, machine).items == request.place(common, machine).items:
        return options  # the engine has no choice
    context = min(options.target.context or request.context, request.trained)
    separate = separate.with_both(context=context)
    fit = request.place(separate, machine)
    cache_bytes = sum(item.bytes for item in fit.items if item.what == "context")
    return separate if not fit.short and cache_bytes <= machine.available // 2 else common


def shorter_context(least: int, request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    most = fit.options.target.context or 0
    if request.options.context is not None or most <= least:
        return None

    def attempt(tokens: int) -> Placement:
        return request.place(fit.options.with_both(context=tokens), machine)

    tokens = largest(least, most, CONTEXT_STEP, lambda tokens: not attempt(tokens).short)
    return f"a context of {tokens:,} tokens in place of {most:,}", attempt(tokens)


def no_draft(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Do without the draft model, or without the drafting head."""
    options = fit.options.target
    if (fit.options.draft is None and options.head is None) or request.insists:
        return None
    change = NO_HEAD if options.head else NO_DRAFT
    return change, request.place(PairOptions(replace(options, head=None), None), machine)


def smaller_kv_cells(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    if fit.options.target.kv_type != "auto":
        return None
    return "KV cache in 8 bits", request.place_with(fit, machine, kv_type=EIGHT_BITS)


def projector_on_host(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Keep the projector off the GPUs: pictures take longer then, and text does not."""
    options = fit.options.target
    if options.projector is None or options.projector_on_host:
        return None
    if fit.short_pool == machine.host.name:
        return None
    return "the projector in host memory", request.place_with(fit, machine, projector_on_host=True)


def experts_on_host(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Keep the experts of as few layers as need be in host memory: a token reads few of them."""
    if not machine.gpus or request.options.cpu_moe is not None:
        return None

    def attempt(on_gpu: int) -> Placement:
        return request.place_with(fit, machine, cpu_moe=fit.layers - on_gpu)

    if attempt(0).items == fit.items:
        return None
    on_gpu = largest(0, fit.layers, 1, lambda layers: not on_gpus(attempt(layers), machine).short)
    change = f"experts of {fit.layers - on_gpu} of {fit.layers} layers in host memory"
    return change, attempt(on_gpu)


def fewer_layers(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    if not machine.gpus or request.options.gpu_layers is not None:
        return None

    def attempt(layers: int) -> Placement:
        return request.place_with(fit, machine, gpu_layers=layers)

    count = largest(0, fit.layers, 1, lambda layers: not on_gpus(attempt(layers), machine).short)
    return f"{count} of {fit.layers + 1} layers on GPUs", attempt(count)


def no_projector(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Do without the projector that lies beside the model."""
    if request.projector is None or fit.options.target.projector is None:
        return None
    return TEXT_ONLY, request.place_with(fit, machine, projector=None)


STEPS: tuple[Callable[[PlanRequest, Placement, Machine], Conceded], ...] = (
    partial(shorter_context, ROOMY_CONTEXT),
    no_draft,
    partial(shorter_context, MODEST_CONTEXT),
    smaller_kv_cells,
    projector_on_host,
    partial(shorter_context, MIN_CONTEXT),
    experts_on_host,
    fewer_layers,
    no_projector,
)


def largest(least: int, most: int, step: int, fits: Callable[[int], bool]) -> int:
    """Find the largest value, in steps from the least, that fits; the least if none does."""
    low, high = 0, (most - least) // step
    while low < high:
        middle = (low + high + 1) // 2
        if fits(least + middle * step):
            low = middle
        else:
            high = middle - 1
    return least + low * step
