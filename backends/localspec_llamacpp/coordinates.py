"""Options of loading that may be faster with another value than the usual one, by machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from localspec.interfaces.backend import SPLIT_MODES, Footprint, Options
from localspec.interfaces.coordinate import Coordinate, OptionValue
from localspec_llamacpp.cores import physical_cores, usable_processors
from localspec_llamacpp.devices import gpus, on_cpu, places

THREADS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
BATCHES = (512, 1024, 2048)
MICRO_BATCHES = (32, 64, 128, 256, 512, 1024)


class Processors(NamedTuple):
    """The cores that are worth a thread each by usual rules, and all that can run one."""

    cores: int
    logical: int


def coordinates(footprint: Footprint, options: Options) -> list[Coordinate]:
    """List the options to search for a model on this machine, those that decide most first."""
    processors = Processors(physical_cores(), len(usable_processors()))
    cards = [] if on_cpu(options) else gpus(places())
    listed = coordinates_on(processors, len(cards), footprint, options)
    far = any(card.device.worker for card in cards)  # where `row` is refused, and `tensor` crashes
    return [one for one in listed if not (far and one.option == "split_mode")]


def coordinates_on(
    processors: Processors, cards: int, footprint: Footprint, options: Options
) -> Iterator[Coordinate]:
    """List the options to search on a machine with so many cores and cards."""
    if cards:
        yield from _on_cards(cards, footprint)
    yield Coordinate("threads", threads(processors))
    if not cards:
        yield Coordinate("mmap", (False, True))
    whole = footprint.recurrent or footprint.window or options.head or options.projector
    if not whole:
        least = 128 if cards else 0
        sizes = [size for size in MICRO_BATCHES if least <= size < options.batch]
        yield Coordinate("micro_batch", (*sizes, None))
    # On a processor it stays as it is, since the bits of a text depend on it.
    flash = (None, False) if cards or options.flash_attention is False else ()
    if flash:
        yield Coordinate("flash_attention", flash)
    yield Coordinate("threads_batch", threads(processors))


def _on_cards(cards: int, footprint: Footprint) -> Iterator[Coordinate]:
    layers = footprint.layers
    fewer = sorted({0, layers // 4, layers // 2, 3 * layers // 4})
    yield Coordinate("gpu_layers", (*fewer, None))
    if cards > 1:
        yield Coordinate("split_mode", SPLIT_MODES)
    if footprint.experts:
        yield Coordinate("cpu_moe", (None, layers // 2, layers))
    yield Coordinate("batch", BATCHES)


def threads(processors: Processors) -> tuple[OptionValue, ...]:
    """List numbers of threads; None stands for the usual one, at its place."""
    cores, logical = processors
    counts = sorted({*(count for count in THREADS if count < logical), cores, logical})
    return tuple(None if count == cores else count for count in counts)
