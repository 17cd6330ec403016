"""What loading a GGUF would take: llama.cpp lays everything out, and allocates nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from localspec.backend import Footprint, Needs, Options, Rehearsal
from localspec_llamacpp.bindings import LOG, Context, Shape, Size, Weights
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.metadata import Tensor
from localspec_llamacpp.headers.parts import whole
from localspec_llamacpp.loading import all_or, check, shape

LOGIT = 4  # bytes
ACTIVATIONS, MASK = 64, 2  # bytes for each of a token's numbers, and for each token it sees


@contextmanager
def rehearse(path: Path) -> Iterator[Rehearsal]:
    footprint = inspect(path)
    tensors = whole(read(path)).tensors
    opened: dict[int, Weights] = {}

    @cache
    def needs(options: Options) -> Needs:
        check(footprint, options)
        layers = all_or(options.gpu_layers)
        if layers not in opened:
            opened[layers] = Weights(path, layers, empty=True)
        weights = opened[layers]
        form = shape(weights, options, footprint.quantisation)
        sizes = laid_out(weights, form) or by_headers(footprint, form)
        logits = form.outputs * weights.vocabulary * LOGIT
        return account(tensors, footprint.layers, sizes, logits)

    try:
        yield needs
    finally:
        for weights in opened.values():
            weights.close()


def laid_out(weights: Weights, form: Shape) -> list[Size]:
    """What a context would take."""
    LOG.take_sizes()
    Context(weights, form).close()
    return LOG.take_sizes()


def by_headers(f: Footprint, form: Shape) -> list[Size]:
    """At most so much, should another llama.cpp tell its sizes in other words."""
    each = f.kv_bytes_per_token + f.window_bytes_per_token
    states = f.state_bytes * form.sequences * (1 + form.snapshots)
    computing = form.batch * (f.embedding * ACTIVATIONS + form.cells * MASK)
    return [Size("", "", each * form.cells + states), Size("CPU", "compute", computing)]


def account(tensors: Sequence[Tensor], layers: int, sizes: Sequence[Size], logits: int) -> Needs:
    held = {tensor.name: tensor.size for tensor in tensors}
    # These are looked up by token, a row at a time, so llama.cpp leaves them with the host.
    embeddings = sum(size for name, size in held.items() if "token_embd.weight" in name)
    output = held.get("output.weight", 0)
    working = [size for size in sizes if size.what == "compute"]
    on_host = sum(size.bytes for size in working if is_host(size.where))
    on_gpu = max((size.bytes for size in working if not is_host(size.where)), default=0)
    return Needs(
        weights=sum(held.values()),
        kept=sum(size.bytes for size in sizes if not size.what),
        working=(on_gpu or on_host) + logits,
        layers=layers,
        embeddings=embeddings,
        output=output or held.get("token_embd.weight", 0),
        tied=not output,
        host=on_host + logits if on_gpu else 0,
    )


def is_host(buffer: str) -> bool:
    """Whether a buffer is in the host's memory: also that which a GPU can read."""
    return buffer.startswith("CPU") or buffer.endswith("_Host")
