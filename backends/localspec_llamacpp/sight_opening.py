"""Open the projector that a model is loaded with, and measure what it takes."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.interfaces.backend import Options
from localspec_llamacpp import devices
from localspec_llamacpp.bindings.log import BufferSize
from localspec_llamacpp.bindings.placement import LayerPlacement
from localspec_llamacpp.bindings.projector import Projector
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.sight import LlamaSight


def open_sight(
    weights: ModelWeights, options: Options, place: LayerPlacement, threads: int
) -> LlamaSight:
    """Load a projector; batches must have room for a picture that it wants read at once."""
    projector = open_projector(weights, options, place, threads)
    return LlamaSight(projector, max(options.batch, projector.widest))


def open_projector(
    weights: ModelWeights, options: Options, place: LayerPlacement, threads: int
) -> Projector:
    """Load a projector: on the first GPU here that has layers, else with the host."""
    assert options.projector is not None
    on_gpu = place.devices and place.layers and not options.projector_on_host
    pointers = {gpu.pointer for gpu in devices.local()} if on_gpu else set()
    device = next((pointer for pointer in place.devices if pointer in pointers), None)
    return Projector(options.projector, weights, device=device, threads=threads)


def working_bytes(projector: Projector, sizes: Sequence[BufferSize], side: int) -> int:
    """Count what a projector computes in for its largest picture.

    Its buffers, logged once for each way of attention that was tried, are for a square of some
    side; they grow with the picture.
    """
    compute = [size for size in sizes if size.kind == "compute"]
    logged = sum(
        max(size.bytes for size in compute if size.where == where)
        for where in {size.where for size in compute}
    )
    return int(logged * max(1.0, projector.longest() / projector.longest(side))) if side else logged
