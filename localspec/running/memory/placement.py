"""Place the bytes of a pair, loaded with given options, on host and GPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from localspec.interfaces.backend import Needs, Options
from localspec.running.memory.machine import Machine, Pool

CONTEXT, DRAFT_MODEL = "context", "draft model"
DRAFT_HEAD, PROJECTOR = "drafting head", "projector"


@dataclass(frozen=True, slots=True)
class Item:
    """Bytes of one kind in one pool."""

    pool: str
    what: str  # "weights", "context", "draft model", "drafting head", "projector" or "buffers"
    bytes: int


@dataclass(frozen=True, slots=True)
class PairOptions:
    """The options to load a pair with."""

    target: Options
    draft: Options | None

    def with_target(self, **changes: Any) -> PairOptions:
        """Change options of the target."""
        return replace(self, target=replace(self.target, **changes))

    def with_both(self, **changes: Any) -> PairOptions:
        """Change options of the target, and of the draft model if there is one."""
        draft = self.draft and replace(self.draft, **changes)
        return PairOptions(replace(self.target, **changes), draft)


@dataclass(frozen=True, slots=True)
class Placement:
    """The bytes of a pair by pool, and the largest shortage."""

    options: PairOptions
    items: tuple[Item, ...]
    layers: int
    short: int = 0
    short_pool: str = ""
    host_read: int = 0  # bytes of weights that each token reads in host memory beside GPUs


def place(
    options: PairOptions, target: Needs, draft_needs: Needs | None, machine: Machine
) -> Placement:
    """Place layers on GPUs: as many as asked for, by default all."""
    layers = target.layers + 1 if options.target.gpu_layers is None else options.target.gpu_layers
    drafts_there = options.draft is not None and options.draft.gpu_layers != 0
    if not machine.gpus or not (layers or drafts_there):
        items = list(items_in_pool(machine.host.name, target, draft_needs))
    else:
        options, items = divide_layers(
            options, target, draft_needs, min(layers, target.layers + 1), machine
        )
    return with_shortage(Placement(options, tuple(items), target.layers), machine)


def with_shortage(fit: Placement, machine: Machine) -> Placement:
    """Find the pool with the largest shortage."""
    short, short_pool = 0, ""
    for pool in (*machine.gpus, machine.host):
        over = sum(item.bytes for item in fit.items if item.pool == pool.name) - pool.available
        if over > short:
            short, short_pool = over, pool.name
    return replace(fit, short=short, short_pool=short_pool)


def on_gpus(fit: Placement, machine: Machine) -> Placement:
    """Judge a placement by its GPUs alone."""
    return with_shortage(fit, replace(machine, host=replace(machine.host, free=1 << 62, reserve=0)))


def items_in_pool(pool: str, target: Needs, draft_needs: Needs | None) -> Iterator[Item]:
    yield Item(pool, "weights", target.weights)
    yield Item(pool, CONTEXT, target.cache)
    if draft_needs:
        yield Item(pool, DRAFT_MODEL, draft_needs.weights + draft_needs.cache)
    if target.head:
        yield Item(pool, DRAFT_HEAD, target.head)
    if target.projector:
        yield Item(pool, PROJECTOR, target.projector)
    yield Item(pool, "buffers", target.working + (draft_needs.working if draft_needs else 0))


def divide_layers(
    options: PairOptions, target: Needs, draft_needs: Needs | None, layers: int, machine: Machine
) -> tuple[PairOptions, list[Item]]:
    """Put the last layers on the GPUs, by their room or as split; the draft model at home.

    A projector goes to the first GPU that has layers, unless it is to stay with the host.
    """
    gpus, home = machine.gpus, machine.home
    on_host = target.projector if options.target.projector_on_host else 0
    target = replace(target, projector=target.projector - on_host)
    draft_bytes = draft_needs.total if draft_needs else 0
    shares = options.target.split or rooms(target, layers, machine, draft_bytes)
    counts = apportion(layers, [share / max(sum(shares), 1e-9) for share in shares])
    items = items_on_gpus(target, layers, gpus, counts)
    if draft_needs:
        own = machine.host.name if home is None else gpus[home].name
        items.append(Item(own, DRAFT_MODEL, draft_needs.weights + draft_needs.cache))
        items.append(Item(own, "buffers", draft_needs.working))
    items += items_on_host(
        target, layers, machine.host.name, draft_needs.host if draft_needs else 0
    )
    if on_host:
        items.append(Item(machine.host.name, PROJECTOR, on_host))
    if len(gpus) > 1:
        draft = options.draft and replace(
            options.draft, split=tuple(float(at == home) for at in range(len(gpus)))
        )
        target_options = replace(options.target, split=tuple(map(float, counts)))
        options = PairOptions(target_options, draft)
    return options, items


def layer_weights(target: Needs) -> int:
    """Count the bytes of the layers, without embeddings and output."""
    return target.weights - target.embeddings - (0 if target.tied else target.output)


def rooms(target: Needs, layers: int, machine: Machine, draft_bytes: int) -> list[int]:
    """Count the room of each GPU for layers; one that has room for all takes them alone.

    One GPU is faster than several, and one here than one of a worker. The GPU of the draft model
    keeps room for its bytes.
    """
    spaces = [max(gpu.available - target.working, 0) for gpu in machine.gpus]
    if machine.home is not None:
        spaces[machine.home] = max(spaces[machine.home] - draft_bytes, 0)
    whole = (layer_weights(target) + target.cache) * min(layers, target.layers) // target.layers
    whole += target.output + (target.head if layers > target.layers else 0) + target.projector
    if machine.main is not None and spaces[machine.main] >= whole:
        return only(machine.main, spaces)
    local = [0 if gpu.worker else space for gpu, space in zip(machine.gpus, spaces, strict=True)]
    ours = local if any(local) else spaces
    best = max(range(len(ours)), key=ours.__getitem__)
    if ours[best] >= whole:
        return only(best, spaces)
    filled = sum(local) >= whole or local == spaces
    return less_projector(local if filled else fill_gpus(spaces, local, whole), target.projector)


def only(one: int, rooms: Sequence[int]) -> list[int]:
    return [space if at == one else 0 for at, space in enumerate(rooms)]


def less_projector(rooms: Sequence[int], projector: int) -> list[int]:
    """Keep room for a projector on the first GPU that has any."""
    first = next((at for at, space in enumerate(rooms) if space), 0)
    return [max(space - projector, 0) if at == first else space for at, space in enumerate(rooms)]


def fill_gpus(rooms: Sequence[int], local: Sequence[int], whole: int) -> list[int]:
    """Fill this machine's GPUs, then as few of the workers' GPUs as hold the rest."""
    taken, remaining = [0] * len(rooms), whole
    for at in sorted(range(len(rooms)), key=lambda at: (not local[at], -rooms[at])):
        taken[at] = min(rooms[at], remaining)
        remaining -= taken[at]
    return taken


def items_on_gpus(
    target: Needs, layers: int, gpus: Sequence[Pool], counts: Sequence[int]
) -> list[Item]:
    """List the bytes per GPU for `counts` layers; output and head go with the last layer."""
    items = []
    for at, (gpu, count) in enumerate(zip(gpus, counts, strict=True)):
        if not count:
            continue
        has_output = layers > target.layers and not any(counts[at + 1 :])
        own = count - has_output
        weights = layer_weights(target) * own // target.layers + target.output * has_output
        items.append(Item(gpu.name, "weights", weights))
        items.append(Item(gpu.name, CONTEXT, target.cache * own // target.layers))
        items.append(Item(gpu.name, "buffers", target.working))
        if has_output and target.head:
            items.append(Item(gpu.name, DRAFT_HEAD, target.head))
        if target.projector and not any(counts[:at]):
            items.append(Item(gpu.name, PROJECTOR, target.projector))
    return items


def items_on_host(target: Needs, layers: int, host: str, draft_bytes: int) -> list[Item]:
    """List what stays in host memory when `layers` layers are on GPUs."""
    remaining = max(target.layers - layers, 0)
    output = 0 if target.tied or layers > target.layers else target.output
    weights = layer_weights(target) * remaining // target.layers + target.embeddings + output
    items = [Item(host, "weights", weights)]
    items.append(Item(host, CONTEXT, target.cache * remaining // target.layers))
    if target.head and layers <= target.layers:
        items.append(Item(host, DRAFT_HEAD, target.head))
    return [*items, Item(host, "buffers", target.host + draft_bytes)]


def apportion(layers: int, shares: Sequence[float]) -> list[int]:
    """Split layers by shares; those left over go to the largest remainders."""
    counts = [int(layers * share) for share in shares]
    order = sorted(range(len(shares)), key=lambda at: counts[at] - layers * shares[at])
    for at in order[: layers - sum(counts)]:
        counts[at] += 1
    return counts
