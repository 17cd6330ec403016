"""Plan memory: fit the needs of a pair into free memory, with concessions. No engine here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from localspec.base.errors import DoesNotFit, UsageError
from localspec.interfaces.backend import Options
from localspec.running.memory.concessions import NO_DRAFT, Concession, concede, fewer_layers
from localspec.running.memory.machine import Machine, Pool, size
from localspec.running.memory.placement import CONTEXT, DRAFT_HEAD, DRAFT_MODEL, Item, Placement
from localspec.running.memory.plan_request import PlanRequest
from localspec.running.memory.settle import Settling
from localspec.running.memory.wider_batch import widened

MAX_NAMED = 3  # other plans that an error names at most
SMALL_CONTEXT = 8192  # tokens, with which a conversation goes on for a while
NOTABLE_BYTES = 512 << 20  # bytes of slots, about which a line is worth reading


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another placement that would fit, and the bytes per token that it reads in host memory."""

    what: str
    host_read: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The options to load with, the bytes by pool, and the concessions."""

    options: Options
    drafting: Options | None  # None: no draft model
    items: tuple[Item, ...]
    machine: Machine
    concessions: tuple[Concession, ...] = ()
    host_read: int = 0  # bytes of weights that each token reads in host memory beside GPUs
    alternative: Alternative | None = None

    def noting(self, change: str, why: str) -> Plan:
        """Return the plan with one more concession."""
        return replace(self, concessions=(*self.concessions, Concession(change, why)))

    def without_draft(self, why: str) -> Plan:
        """Return the plan without the draft model, which could not be loaded."""
        return replace(self, drafting=None).noting(NO_DRAFT, why)

    @property
    def pools(self) -> list[Pool]:
        """Return the pools in use."""
        used = {item.pool for item in self.items}
        return [pool for pool in (*self.machine.gpus, self.machine.host) if pool.name in used]

    @property
    def on_host(self) -> bool:
        """Whether the host computes alone, in its own memory."""
        return self.pools == [self.machine.host]

    @property
    def for_draft(self) -> int:
        return sum(item.bytes for item in self.items if item.what in (DRAFT_MODEL, DRAFT_HEAD))

    def taken(self, pool: Pool) -> int:
        return sum(item.bytes for item in self.items if item.pool == pool.name)


def plan(request: PlanRequest, machine: Machine) -> Plan:
    """Choose the options to load a pair with; `DoesNotFit` names others that would fit."""
    estimated, concessions = concede(request, machine)
    estimated = widened(request, estimated, machine)
    fit = settle_placement(request, estimated, machine)
    if fit.short:
        raise DoesNotFit(refusal(request, machine, fit))
    layers = fit.options.target.gpu_layers
    if layers not in (estimated.options.target.gpu_layers, None):
        change = f"{layers} of {fit.layers + 1} layers on GPUs"
        concessions.append(Concession(change, "as llama.cpp lays it out"))
    return Plan(
        fit.options.target,
        fit.options.draft,
        fit.items,
        machine,
        tuple(concessions),
        fit.host_read,
        alternative(request, fit, machine),
    )


def settle_placement(request: PlanRequest, fit: Placement, machine: Machine) -> Placement:
    """Correct a placement by the engine's own count for each device."""
    if not machine.gpus or fit.options.target.gpu_layers == 0:
        return fit
    options = request.options
    may_split, may_drop = not options.split, options.gpu_layers is None
    return Settling(machine, request.needs, may_split, may_drop).settle(fit)


def alternative(request: PlanRequest, fit: Placement, machine: Machine) -> Alternative | None:
    """Describe the placement of whole layers, where experts are placed by themselves."""
    options = fit.options.target
    if not options.cpu_moe or request.options.cpu_moe is not None:
        return None
    whole = replace(fit, options=fit.options.with_target(cpu_moe=None))
    fewer = fewer_layers(request, whole, machine)
    if fewer is None:
        return None
    change, other = fewer
    other = settle_placement(request, other, machine)
    return None if other.short else Alternative(change, other.host_read)


def refusal(request: PlanRequest, machine: Machine, fit: Placement) -> str:
    """Describe the shortage, and the options that would fit."""
    pool = next(p for p in (*machine.gpus, machine.host) if p.name == fit.short_pool)
    bound = "the budget leaves" if pool.by_budget else "there is"
    advice = (raising := pool.advice(fit.short)) and f"; {raising}"
    text = f"this takes {size(fit.short)} more than {bound} for it in {fit.short_pool}"
    near = list(nearest(request, machine))[:MAX_NAMED]
    if near:
        return f"{text}; with {' or '.join(near)} it would fit{advice}"
    least = sum(item.bytes for item in fit.items if item.pool == fit.short_pool)
    more = "give a larger budget" if pool.by_budget else "close other programs"
    return (
        f"{text}: at the least {size(least)} of {size(pool.available)}; choose a smaller model or "
        f"quantisation, or {more}{advice}"
    )


def nearest(request: PlanRequest, machine: Machine) -> Iterator[str]:
    """Yield options that would fit in place of those given: one of them given up, or all."""
    options = request.options
    for name, relaxed in relaxations(request):
        try:
            fit, _ = concede(relaxed, machine)
        except UsageError:
            continue
        if fit.short:
            continue
        context = fit.options.target.context
        if options.context not in (None, context):
            yield name or f"--context {context}"
        else:
            yield name or f"--gpu-layers {fit.options.target.gpu_layers}"


def relaxations(request: PlanRequest) -> Iterator[tuple[str, PlanRequest]]:
    """Yield requests that ask for less, each with the option for it; "": the placement shows it."""
    options = request.options
    if request.insists:
        alone = replace(request, draft=None, insists=False).with_options(head=None)
        yield "no drafting head" if options.head else "no draft model", alone
    if options.projector:
        yield "--no-mmproj", request.with_options(projector=None)
    if options.context is not None:
        yield "", replace(request.with_options(context=None), context=options.context)
    if options.kv_type not in ("auto", "q8_0", "q4_0"):
        yield "--kv-type q8_0", request.with_options(kv_type="q8_0")
    if options.kv_type != "q4_0":
        yield "--kv-type q4_0", request.with_options(kv_type="q4_0")
    if options.gpu_layers is not None:
        yield "", request.with_options(gpu_layers=None)
    if options.slots > 1:
        yield "one slot", request.with_options(slots=1)


def held_for_slots(plan: Plan) -> str:
    """Return what slots with caches of their own take, and how to take less; "" if that is little.

    All of it is taken from the start, however short the texts are.
    """
    options, total = plan.options, sum(item.bytes for item in plan.items)
    cache = sum(item.bytes for item in plan.items if item.what == CONTEXT)
    context, slots = options.context or 0, options.slots
    if options.shared is not False or slots == 1 or cache < max(total / 2, NOTABLE_BYTES):
        return ""
    fewer = min(context, SMALL_CONTEXT)
    less = total - cache + cache * fewer // (context * slots)
    smaller = f"--slots 1 --context {fewer}" if fewer < context else "--slots 1"
    return (
        f"of {size(total)} of memory, {size(cache)} are for {slots} requests at once ({slots} "
        f"slots of {context:,} tokens); with {smaller} it would be about {size(less)}"
    )


def beyond_training(options: Options, trained: int, requested: int | None = None) -> str:
    """Return a warning if a context is longer than the model's training; else "".

    `options` are those that were planned, where it may be shorter than what was asked for.
    """
    texts = 1 if options.shared is False else options.slots  # that share what was asked for
    planned = options.context or 0
    context = max(requested or 0, planned)
    if not trained or context <= trained * texts:
        return ""
    note = f"a context of {context:,} tokens is more than the {trained:,} that the model was"
    if planned < context:
        return f"{note} trained for: a text has {planned:,}"
    return f"{note} trained for: it may answer longer texts badly"
