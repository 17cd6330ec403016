"""A rehearsal of loading a GGUF: llama.cpp lays everything out, and allocates nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from localspec.base.errors import BackendError, OutOfMemory, UsageError
from localspec.base.tokenizer import Tokenizer
from localspec.interfaces.backend import BY_LAYER, Adapter, Footprint, Needs, Options, Rehearsal
from localspec_llamacpp.bindings import products
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.bindings.log import LOG, BufferSize, CacheSize
from localspec_llamacpp.bindings.placement import HOST, LayerPlacement
from localspec_llamacpp.bindings.pooled import BATCH, PooledContext, PooledShape
from localspec_llamacpp.bindings.shape import ContextShape
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.checks import check, check_kind
from localspec_llamacpp.cores import physical_cores
from localspec_llamacpp.head_opening import HeadPlan, plan_head
from localspec_llamacpp.headers.footprint import described
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.parts import whole
from localspec_llamacpp.headers.rounding import packable
from localspec_llamacpp.layout import HOST_NAME, LaidOut, account, kept
from localspec_llamacpp.loading import placement, set_up, shape
from localspec_llamacpp.tokenizer import GgufTokenizer
from localspec_llamacpp.vectors import pooled_shape, shape_beside

LOGIT = 4  # bytes
ACTIVATIONS, MASK = 64, 2  # bytes for each of a token's numbers, and for each token it sees
LONG, MANY = 1 << 17, 256  # tokens and sequences, with which llama.cpp's figures are precise enough


@contextmanager
def rehearse(path: Path) -> Iterator[Rehearsal]:
    rehearsal = LlamaRehearsal(path)
    try:
        yield rehearsal
    finally:
        rehearsal.close()


class LlamaRehearsal:
    """A file that is laid out on as many devices as asked for, once each way."""

    def __init__(self, path: Path) -> None:
        header = whole(read(path))
        self._headers = described(header)
        self._tensors = {tensor.name: tensor.size for tensor in header.tensors}
        self._matrices = [tensor for tensor in header.tensors if packable(tensor)]
        check(self._headers, Options())
        self._path = path
        self._opened: dict[tuple[LayerPlacement, bool], LaidOut] = {}
        self._projectors: dict[tuple[Path, LayerPlacement, bool], tuple[int, int]] = {}

    @cached_property
    def footprint(self) -> Footprint:
        if self._headers.drafter:  # nothing can be laid out without its target
            return self._headers
        weights = self._on_host.weights
        if self._headers.pooling:
            return replace(self._headers, layers=weights.layers, vocabulary=weights.vocabulary)
        check_kind(weights, self._headers)
        form = shape(weights, Options(), self._headers)
        form = replace(form, sequences=MANY, outputs=MANY, cells=LONG, pooled=True, snapshots=0)
        full = caches(weights, replace(form, full_windows=True))
        cut = caches(weights, replace(form, sequences=1, outputs=1, full_windows=False))
        return completed(self._headers, weights, full, cut)

    @property
    def tokenizer(self) -> Tokenizer:
        weights = self._on_host.weights
        return GgufTokenizer(weights, self._headers.tokenizer, self._headers.chat_template)

    def needs(self, options: Options) -> Needs:
        check(self._headers, options)
        options = replace(options, split_mode=BY_LAYER)  # rows take as much memory
        model = self._laid_out(placement(options, self._headers), head=options.head == self._path)
        active = self._headers.active_experts / max(self._headers.experts, 1)
        model = model._replace(
            tensors={**model.tensors, **tensors_of(options.adapters)},
            experts_on_host=options.cpu_moe or 0,
            active=active,
            packing=self._packing(model, options),
        )
        if self._headers.pooling:
            return pooled_needs(model, options)
        widest, seeing = self._projected(model.weights, options)
        options = replace(options, batch=max(options.batch, widest))
        LOG.take_sizes()
        LOG.take_caches()
        with ExitStack() as stack:
            context = self._context(model.weights, options)
            stack.callback(context.close)
            if options.pooling:
                beside = PooledContext(model.weights, shape_beside(model.weights, options))
                stack.callback(beside.close)
            needs = self._counted(model, context, options)
        return replace(needs, projector=needs.projector + seeing)

    def _packing(self, model: LaidOut, options: Options) -> int:
        """Count the bytes that matrices on the host take beyond their file's, once packed."""
        if not options.own_products or not placement(options, self._headers).packed:
            return 0
        return sum(
            products.packed_bytes(matrix) - matrix.size
            for matrix in self._matrices
            if products.name() and model.device(matrix.name) == HOST_NAME
        )

    def _projected(self, weights: ModelWeights, options: Options) -> tuple[int, int]:
        """Load a projector; return the batch that it needs, and the bytes that it computes in."""
        if not options.projector:
            return 0, 0
        place = placement(options, self._headers)
        key = options.projector, place, options.projector_on_host
        if key not in self._projectors:
            from localspec_llamacpp.sight_opening import open_projector, working_bytes

            LOG.take_sizes()
            projector = open_projector(weights, options, place, physical_cores())
            working = working_bytes(projector, LOG.take_sizes(), LOG.warmed_up)
            self._projectors[key] = projector.widest, working
            projector.close()
        return self._projectors[key]

    def _counted(self, model: LaidOut, trunk: Context, options: Options) -> Needs:
        """Count what was laid out, and what a head would take beside it."""
        sizes, caches = LOG.take_sizes(), LOG.take_caches()
        outputs, beside = trunk.shape.outputs, 0
        if options.pooling:
            outputs += pooled_outputs(shape_beside(model.weights, options))
        logits = outputs * model.weights.vocabulary * LOGIT
        if 0 < trunk.snapshots < options.tentative:
            logits += self.footprint.state_bytes  # copied to the host before a long draft
        if options.head:
            place = placement(options, self._headers)
            head = plan_head(model.weights, trunk.shape, options, place, empty=True)
            more = measured(head, trunk)
            logits += head.buffers
            if head.separate:
                beside = held_bytes(options.head) + kept(more)
                more = [size for size in more if size.kind]
            else:
                caches += LOG.take_caches()
            sizes += more
        sizes = sizes or by_headers(self.footprint, trunk.shape)
        projector = held_bytes(options.projector) if options.projector else 0
        return replace(account(model, sizes, caches, logits), head=beside, projector=projector)

    def _context(self, weights: ModelWeights, options: Options) -> Context:
        """Set up a context, which allocates nothing."""
        try:
            return set_up(weights, options, self._headers)[1]
        except OutOfMemory:
            raise
        except BackendError as error:
            if "q" not in options.kv_type:
                raise
            raise UsageError(f"this model has no {options.kv_type} KV cache: {error}") from error

    @property
    def _on_host(self) -> LaidOut:
        return self._laid_out(HOST)

    def _laid_out(self, place: LayerPlacement, *, head: bool = False) -> LaidOut:
        key = (place, head)
        products.use(place.own_products)  # also of weights that were laid out before
        if key not in self._opened:
            LOG.take_layers()
            weights = ModelWeights(self._path, place, head=head, empty=True)
            self._opened[key] = LaidOut(weights, self._tensors, LOG.take_layers(), head)
        return self._opened[key]

    def close(self) -> None:
        for model in self._opened.values():
            model.weights.close()


def pooled_needs(model: LaidOut, options: Options) -> Needs:
    """Count what a model that reads whole texts would take."""
    shape = pooled_shape(model.weights, options)
    LOG.take_sizes()
    LOG.take_caches()
    context = PooledContext(model.weights, shape)
    sizes, caches = LOG.take_sizes(), LOG.take_caches()
    outputs = pooled_outputs(shape)
    context.close()
    # llama.cpp keeps room for the logits of each token, also where a model has none.
    return account(model, sizes, caches, outputs * model.weights.vocabulary * LOGIT)


def pooled_outputs(shape: PooledShape) -> int:
    """Count the tokens whose outputs are kept at once."""
    return shape.texts if shape.in_pieces else min(BATCH, shape.tokens)


def measured(head: HeadPlan, trunk: Context) -> list[BufferSize]:
    """Measure what the context of a head would take."""
    try:
        LOG.take_sizes()
        context = head.context(trunk)
        shared, sizes = context.shares(trunk), LOG.take_sizes()
        context.close()
        # Keys and values of a trunk are logged again by a head that looks into them.
        return [size for size in sizes if size.kind or not shared]
    finally:
        head.close()


def held_bytes(path: Path) -> int:
    """Count the bytes of the weights in a file."""
    return sum(tensor.size for tensor in whole(read(path)).tensors)


def tensors_of(adapters: Sequence[Adapter]) -> dict[str, int]:
    """Count the bytes of adapters' tensors, which go to the devices of those they change."""
    return {
        f"{tensor.name}.{number}": tensor.size
        for number, adapter in enumerate(adapters)
        for tensor in read(adapter.path).tensors
    }


def caches(weights: ModelWeights, form: ContextShape) -> list[CacheSize]:
    """List the caches of a context, as llama.cpp lays them out."""
    LOG.take_caches()
    Context(weights, form).close()
    return LOG.take_caches()


def completed(
    headers: Footprint, weights: ModelWeights, full: Sequence[CacheSize], cut: Sequence[CacheSize]
) -> Footprint:
    """Add what the engine lays out; a cache that need not be full is one of a window."""
    pairs = list(zip(full, cut, strict=True))
    recurrent = [cache for cache in full if cache.recurrent]
    windows = [one for one, other in pairs if not one.recurrent and one.cells != other.cells]
    every = [one for one, other in pairs if not one.recurrent and one.cells == other.cells]
    return replace(
        headers,
        layers=weights.layers,
        vocabulary=weights.vocabulary,
        attention_layers=max((len(cache.layers) for cache in every), default=0),
        kv_bytes_per_token=sum(cell_bytes(cache) for cache in every),
        window=weights.window if windows else 0,
        window_layers=max((len(cache.layers) for cache in windows), default=0),
        window_bytes_per_token=sum(cell_bytes(cache) for cache in windows),
        recurrent_layers=max((len(cache.layers) for cache in recurrent), default=0),
        state_bytes=sum(cell_bytes(cache) for cache in recurrent),
    )


def cell_bytes(cache: CacheSize) -> int:
    """Compute the bytes of a token, or of a sequence's state, from a log in steps of 0.01 MiB."""
    return round(cache.bytes / cache.cells)


def by_headers(f: Footprint, form: ContextShape) -> list[BufferSize]:
    """Bound the sizes by the header, should another llama.cpp log them in other words."""
    token = f.kv_bytes_per_token + f.window_bytes_per_token
    states = f.state_bytes * form.sequences * (1 + form.snapshots)
    computing = form.batch * (f.embedding * ACTIVATIONS + form.cells * MASK)
    return [
        BufferSize("", "", token * form.cells + states),
        BufferSize("CPU", "compute", computing),
    ]
