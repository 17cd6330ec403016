"""Plan memory: fit the needs of a pair into free memory, with concessions. No engine here.

Options that were given are never conceded. The others go in this order: context beyond 16,384
tokens; the draft model's KV cache to 8 bits; the draft model; context beyond 8,192; the target's
KV cache to 8 bits; a projector on a GPU; context beyond 4,096; experts on GPUs; layers on GPUs; a
projector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from localspec.backend import CELLS, Estimate, Needs, Options
from localspec.errors import DoesNotFit, LocalSpecError, UsageError
from localspec.memory.machine import Machine, Pool, size
from localspec.memory.placement import (
    DRAFT_HEAD,
    DRAFT_MODEL,
    Item,
    PairOptions,
    Placement,
    on_gpus,
    place,
    with_cache,
    with_context,
)
from localspec.memory.settle import Settling

ROOMY_CONTEXT, MODEST_CONTEXT, MIN_CONTEXT = 16_384, 8192, 4096
CONTEXT_STEP = 256  # tokens by which a context is cut
EIGHT_BITS = "q8_0"
NO_DRAFT = "no draft model: prompt lookup drafts instead"
SMALL_DRAFT = "the draft model's KV cache in 8 bits"
NO_HEAD = "no drafting head: prompt lookup drafts instead"
TEXT_ONLY = "text only"
MAX_NAMED = 3  # other plans that an error names at most


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A pair, its needs, and the options to load it with; open ones may be conceded."""

    target: Estimate
    options: Options  # None and "auto" are open
    context: int  # tokens, where none were asked for
    draft: Estimate | None = None
    drafting: Options = field(default_factory=lambda: Options(drafting=True))
    insists: bool = False  # on the draft model
    trained: int = CELLS  # tokens of one text that the model was made for
    projector: Path | None = None  # that lies beside it: loaded if there is room for it


@dataclass(frozen=True, slots=True)
class Concession:
    what: str
    why: str


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
    layers: int
    concessions: tuple[Concession, ...] = ()
    host_read: int = 0  # bytes of weights that each token reads in host memory beside GPUs
    alternative: Alternative | None = None

    def noting(self, what: str, why: str) -> Plan:
        """Return the plan with one more concession."""
        return replace(self, concessions=(*self.concessions, Concession(what, why)))

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
    fit, concessions = concede(request, machine)
    before, fit = fit, settle_placement(request, fit, machine)
    if fit.short:
        raise DoesNotFit(refusal(request, machine, fit))
    way = fit.way
    if way.options.gpu_layers not in (before.way.options.gpu_layers, None):
        change = f"{way.options.gpu_layers} of {fit.layers + 1} layers on GPUs"
        concessions.append(Concession(change, "as llama.cpp lays it out"))
    other = alternative(request, fit, machine)
    return Plan(
        way.options,
        way.drafting,
        fit.items,
        machine,
        fit.layers,
        tuple(concessions),
        fit.host_read,
        other,
    )


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
            if change == NO_DRAFT:  # how it would have been kept does not matter any more
                concessions = [one for one in concessions if one.what != SMALL_DRAFT]
            concessions.append(Concession(change, f"{size(fit.short)} too much for {fit.where}"))
            fit = smaller
    return fit, concessions


def without_concessions(
    request: PlanRequest, machine: Machine
) -> tuple[Placement, list[Concession]]:
    """Place all that was asked for, but for a projector that its engine refuses."""
    way = PairOptions(request.options, request.drafting if request.draft else None)
    way = with_context(way, request.options.context or request.context)
    refused: list[Concession] = []
    if request.projector:
        seeing = replace(way, options=replace(way.options, projector=request.projector))
        try:
            request.target(seeing.options)
            way = seeing
        except LocalSpecError as error:
            refused = [Concession(TEXT_ONLY, str(error))]
    return place_pair(request, choose_cache(request, way, machine), machine), refused


def settle_placement(request: PlanRequest, fit: Placement, machine: Machine) -> Placement:
    """Correct a placement by the engine's own count for each device."""
    if not machine.gpus or fit.way.options.gpu_layers == 0:
        return fit
    options = request.options
    return Settling(
        machine, partial(ask_needs, request), not options.split, options.gpu_layers is None
    ).settled(fit)


def ask_needs(request: PlanRequest, way: PairOptions) -> tuple[Needs, Needs | None]:
    """Ask the engines for the needs of both models with these options."""
    draft = None
    if way.drafting is not None and request.draft is not None:
        draft = request.draft(way.drafting)
    return request.target(way.options), draft


def choose_cache(request: PlanRequest, way: PairOptions, machine: Machine) -> PairOptions:
    """Choose a KV cache per slot if half of the free memory is enough, else one for all slots.

    The cache of a slot holds one text, and so at most as many tokens as the model was trained for.
    """
    if way.options.slots == 1 or way.options.shared is not None:
        return way
    separate, common = (with_cache(way, shared=shared) for shared in (False, True))
    if place_pair(request, separate, machine).items == place_pair(request, common, machine).items:
        return way  # the engine has no choice
    context = min(way.options.context or request.context, request.trained)
    separate = with_context(separate, context)
    fit = place_pair(request, separate, machine)
    cache_bytes = sum(item.bytes for item in fit.items if item.what == "context")
    return separate if not fit.short and cache_bytes <= machine.available // 2 else common


Conceded = tuple[str, Placement] | None


def smaller_draft(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    drafting = fit.way.drafting
    if drafting is None or drafting.kv_type != "auto":
        return None
    way = replace(fit.way, drafting=replace(drafting, kv_type=EIGHT_BITS))
    return SMALL_DRAFT, place_pair(request, way, machine)


def no_draft(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Do without the draft model, or without the drafting head."""
    options = fit.way.options
    if (fit.way.drafting is None and options.head is None) or request.insists:
        return None
    change = NO_HEAD if options.head else NO_DRAFT
    return change, place_pair(request, PairOptions(replace(options, head=None), None), machine)


def projector_on_host(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Keep the projector off the GPUs: pictures take longer then, and text does not."""
    options = fit.way.options
    if options.projector is None or options.projector_on_host or fit.where == machine.host.name:
        return None
    way = replace(fit.way, options=replace(options, projector_on_host=True))
    return "the projector in host memory", place_pair(request, way, machine)


def no_projector(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Do without the projector that lies beside the model."""
    if request.projector is None or fit.way.options.projector is None:
        return None
    way = replace(fit.way, options=replace(fit.way.options, projector=None))
    return TEXT_ONLY, place_pair(request, way, machine)


def smaller_kv_cells(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    if fit.way.options.kv_type != "auto":
        return None
    way = replace(fit.way, options=replace(fit.way.options, kv_type=EIGHT_BITS))
    return "KV cache in 8 bits", place_pair(request, way, machine)


def shorter_context(least: int, request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    most = fit.way.options.context or 0
    if request.options.context is not None or most <= least:
        return None

    def attempt(tokens: int) -> Placement:
        return place_pair(request, with_context(fit.way, tokens), machine)

    tokens = largest(least, most, CONTEXT_STEP, lambda tokens: not attempt(tokens).short)
    return f"a context of {tokens:,} tokens in place of {most:,}", attempt(tokens)


def experts_on_host(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    """Keep the experts of as few layers as need be in host memory: a token reads few of them."""
    if not machine.gpus or request.options.cpu_moe is not None:
        return None

    def attempt(layers: int) -> Placement:
        options = replace(fit.way.options, cpu_moe=layers)
        return place_pair(request, replace(fit.way, options=options), machine)

    if attempt(fit.layers).items == fit.items:
        return None
    kept = largest(0, fit.layers, 1, lambda n: not on_gpus(attempt(fit.layers - n), machine).short)
    count = fit.layers - kept
    return f"experts of {count} of {fit.layers} layers in host memory", attempt(count)


def alternative(request: PlanRequest, fit: Placement, machine: Machine) -> Alternative | None:
    """Describe the placement of whole layers, where experts are placed by themselves."""
    options = fit.way.options
    if not options.cpu_moe or request.options.cpu_moe is not None:
        return None
    whole = replace(fit, way=replace(fit.way, options=replace(options, cpu_moe=None)))
    fewer = fewer_layers(request, whole, machine)
    if fewer is None:
        return None
    change, other = fewer
    other = settle_placement(request, other, machine)
    return None if other.short else Alternative(change, other.host_read)


def fewer_layers(request: PlanRequest, fit: Placement, machine: Machine) -> Conceded:
    if not machine.gpus or request.options.gpu_layers is not None:
        return None

    def attempt(layers: int) -> Placement:
        options = replace(fit.way.options, gpu_layers=layers)
        return place_pair(request, replace(fit.way, options=options), machine)

    count = largest(0, fit.layers, 1, lambda layers: not on_gpus(attempt(layers), machine).short)
    return f"{count} of {fit.layers + 1} layers on GPUs", attempt(count)


STEPS: tuple[Callable[[PlanRequest, Placement, Machine], Conceded], ...] = (
    partial(shorter_context, ROOMY_CONTEXT),
    smaller_draft,
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


def place_pair(request: PlanRequest, way: PairOptions, machine: Machine) -> Placement:
    """Place a pair; how layers were split for another placement does not matter."""
    way = replace(way, options=replace(way.options, split=request.options.split))
    return place(way, *ask_needs(request, way), machine)


def refusal(request: PlanRequest, machine: Machine, fit: Placement) -> str:
    """Describe the shortage, and the options that would fit."""
    pool = next(p for p in (*machine.gpus, machine.host) if p.name == fit.where)
    bound = "the budget leaves" if pool.by_budget else "there is"
    text = f"this takes {size(fit.short)} more than {bound} for it in {fit.where}"
    near = list(nearest(request, machine))[:MAX_NAMED]
    if near:
        return f"{text}; with {' or '.join(near)} it would fit"
    least = sum(item.bytes for item in fit.items if item.pool == fit.where)
    more = "give a larger budget" if pool.by_budget else "close other programs"
    return (
        f"{text}: at the least {size(least)} of {size(pool.available)}; choose a smaller model or "
        f"quantisation, or {more}"
    )


def nearest(request: PlanRequest, machine: Machine) -> Iterator[str]:
    """Yield options that would fit in place of those given: one of them given up, or all."""
    options = request.options
    relaxed: list[tuple[str, PlanRequest]] = []
    if request.insists:
        alone = replace(request, draft=None, options=replace(options, head=None), insists=False)
        relaxed.append(("no drafting head" if options.head else "no draft model", alone))
    if options.projector:
        relaxed.append(("--no-mmproj", _with(request, projector=None)))
    if options.context is not None:
        open_context = replace(request, options=replace(options, context=None))
        relaxed.append(("", replace(open_context, context=options.context)))
    if options.kv_type not in ("auto", "q8_0", "q4_0"):
        relaxed.append(("--kv-type q8_0", _with(request, kv_type="q8_0")))
    if options.kv_type != "q4_0":
        relaxed.append(("--kv-type q4_0", _with(request, kv_type="q4_0")))
    if options.gpu_layers is not None:
        relaxed.append(("", _with(request, gpu_layers=None)))
    if options.slots > 1:
        relaxed.append(("one slot", _with(request, slots=1)))
    for name, other in relaxed:
        try:
            fit, _ = concede(other, machine)
        except UsageError:
            continue
        if not fit.short:
            yield name or _named(fit, options)


def _with(request: PlanRequest, **changes: object) -> PlanRequest:
    return replace(request, options=replace(request.options, **changes))  # type: ignore[arg-type]


def _named(fit: Placement, options: Options) -> str:
    if fit.way.options.context != options.context and options.context is not None:
        return f"--context {fit.way.options.context}"
    return f"--gpu-layers {fit.way.options.gpu_layers}"
