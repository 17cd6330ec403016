"""Correct a placement by the engine's count for each device; move layers off full ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from localspec.interfaces.backend import DeviceNeeds, Needs
from localspec.running.memory.machine import Machine
from localspec.running.memory.placement import (
    DRAFT_HEAD,
    DRAFT_MODEL,
    PROJECTOR,
    Item,
    PairOptions,
    Placement,
    with_shortage,
)

MAX_MOVES = 16  # layers that are moved at most

Ask = Callable[[PairOptions], tuple[Needs, Needs | None]]


@dataclass(frozen=True, slots=True)
class Settling:
    """A machine, an engine to ask for the needs of a placement, and what may be changed."""

    machine: Machine
    ask: Ask
    may_split: bool  # whether layers may go to another GPU than estimated
    may_drop: bool  # whether layers may go to the host

    def settle(self, fit: Placement) -> Placement:
        """Count a placement by the engine; where a GPU is short, move layers off it."""
        for _ in range(MAX_MOVES):
            target, draft = self.ask(fit.options)
            if len(target.devices) != len(self.machine.gpus) + 1:
                return fit  # the engine does not know
            exact = self._count(fit, target, draft)
            moved = self._move_layer(exact, target) if exact.short else None
            if moved is None:
                return exact
            fit = moved
        return exact

    def _count(self, fit: Placement, target: Needs, draft: Needs | None) -> Placement:
        items = list(self._items(target, draft, fit))
        read = target.devices[0].read
        return with_shortage(replace(fit, items=tuple(items), host_read=read), self.machine)

    def _items(self, target: Needs, draft: Needs | None, fit: Placement) -> Iterator[Item]:
        pools = [self.machine.host.name, *(gpu.name for gpu in self.machine.gpus)]
        own = draft.devices if draft and len(draft.devices) == len(pools) else None
        for at, (pool, needs) in enumerate(zip(pools, target.devices, strict=True)):
            yield from items(pool, needs)
            if own:
                yield Item(pool, DRAFT_MODEL, own[at].weights + own[at].cache)
                yield Item(pool, "buffers", own[at].working)
        if draft and self.machine.home is None:
            yield Item(self.machine.host.name, "buffers", draft.working)
        uncounted = [DRAFT_HEAD, PROJECTOR]
        uncounted += [] if own or draft is None else [DRAFT_MODEL]
        yield from (item for item in fit.items if item.what in uncounted)

    def _move_layer(self, fit: Placement, target: Needs) -> Placement | None:
        """Take a layer from the GPU that is short; None if that cannot be or would not help."""
        names = [gpu.name for gpu in self.machine.gpus]
        if fit.short_pool not in names:
            return None
        counts = self._counts(fit)
        at = names.index(fit.short_pool)
        if not counts[at]:
            return None
        layer_bytes = (target.devices[at + 1].weights + target.devices[at + 1].cache) // counts[at]
        spare = [self._spare(fit, name) for name in names]
        other = max((n for n in range(len(names)) if n != at), key=spare.__getitem__, default=at)
        counts[at] -= 1
        layers = sum(counts)
        if self.may_split and spare[other] > layer_bytes + target.working * (not counts[other]):
            counts[other] += 1
            layers += 1
        elif not self.may_drop:
            return None
        options = fit.options.with_target(
            split=tuple(map(float, counts)) if len(counts) > 1 else (),
            gpu_layers=fit.options.target.gpu_layers if layers > fit.layers else layers,
        )
        return replace(fit, options=options)

    def _counts(self, fit: Placement) -> list[int]:
        whole = fit.layers + 1
        layers = whole if fit.options.target.gpu_layers is None else fit.options.target.gpu_layers
        if len(self.machine.gpus) == 1:
            return [min(layers, whole)]
        return [int(share) for share in fit.options.target.split]

    def _spare(self, fit: Placement, pool: str) -> int:
        available = next(gpu.available for gpu in self.machine.gpus if gpu.name == pool)
        return available - sum(item.bytes for item in fit.items if item.pool == pool)


def items(pool: str, needs: DeviceNeeds) -> Iterator[Item]:
    for kind, count in (
        ("weights", needs.weights),
        ("context", needs.cache),
        ("buffers", needs.working),
    ):
        if count:
            yield Item(pool, kind, count)
