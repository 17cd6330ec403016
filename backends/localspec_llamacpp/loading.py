"""Load a GGUF, and choose for this machine what the options leave open."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import llama_cpp.llama_cpp as lib

from localspec.base.errors import BackendError, OutOfMemory, UsageError
from localspec.base.system.free_memory import memory
from localspec.interfaces.backend import (
    CONTEXT,
    Build,
    Device,
    Footprint,
    Options,
    Progress,
    silent,
)
from localspec_build import records
from localspec_llamacpp import devices, head_kinds, remote
from localspec_llamacpp.bindings import huge_pages, library
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.placement import LayerPlacement
from localspec_llamacpp.bindings.shape import ContextShape
from localspec_llamacpp.bindings.watching import LAYER_INPUTS
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.checks import check, check_kind
from localspec_llamacpp.cores import physical_cores
from localspec_llamacpp.devices import has_gpu, on_cpu
from localspec_llamacpp.head_opening import head_of, plan_head
from localspec_llamacpp.headers import rounding
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.model import LlamaModel, ModelParts
from localspec_llamacpp.tokenizer import GgufTokenizer

if TYPE_CHECKING:
    from localspec_llamacpp.sight import LlamaSight

BIT_EXACT = "f16,bf16"  # keys and values
MAX_SNAPSHOTS = 8  # each takes as much memory as the states of a text
SPARE = 0.25  # of the memory, which stays free beside weights that the system cannot drop


def load(path: Path, options: Options, tell: Progress = silent) -> LlamaModel:
    """Load a model; report how much of it was read."""
    footprint = inspect(path)
    check(footprint, options)
    LOG.verbose, LOG.unlocked = options.verbose, False
    if alike(options) and not even(options, footprint):
        rounding.round_alike()
    huge = suits_huge_pages(footprint, options)
    place = placement(options, footprint)
    place = place._replace(huge_pages=huge, load_mode=load_mode(options, huge_pages=huge))
    with ExitStack() as stack:
        weights = ModelWeights(path, place, head=options.head == path, tell=tell)
        stack.callback(weights.close)
        check_kind(weights, footprint)
        sight: LlamaSight | None = None
        if options.projector:
            from localspec_llamacpp.sight_opening import open_sight  # 10 ms that few models spend

            sight = open_sight(weights, options, place, options.threads or physical_cores())
            stack.callback(sight.close)
            options = replace(options, batch=sight.batch)
        weights.load_adapters(options.adapters)
        tokenizer = GgufTokenizer(weights, footprint.tokenizer, footprint.chat_template)
        form, context = set_up(weights, options, footprint)
        stack.callback(context.close)
        head = None
        if options.head:
            head = head_of(plan_head(weights, form, options, place), context, options)
            stack.callback(head.close)
        remote.end_silence()
        parts = ModelParts(tokenizer, stack.pop_all(), head, sight)
        return LlamaModel(weights, context, options, parts)


def placement(options: Options, footprint: Footprint) -> LayerPlacement:
    """Choose the devices that layers go to, and no others, which would take memory for nothing."""
    # llama.cpp copies what it packs also from a file that is mapped.
    packed = not options.mmap and (not alike(options) or even(options, footprint))
    gpus = devices.gpus(devices.places()) if options.gpu_layers != 0 else []
    shares = options.split or (1.0,) * len(gpus)
    if len(shares) != len(gpus) and gpus:
        raise UsageError(f"split has {len(shares)} shares, and there are {len(gpus)} GPUs")
    used = [(gpu.pointer, share) for gpu, share in zip(gpus, shares, strict=False) if share]
    layers = -1 if options.gpu_layers is None else options.gpu_layers
    split = tuple(share for _, share in used) if options.split else ()
    pointers = tuple(pointer for pointer, _ in used)
    return LayerPlacement(
        layers,
        pointers,
        split,
        options.cpu_moe or 0,
        packed=packed,
        own_products=options.own_products,
        split_mode=options.split_mode,
    )


def suits_huge_pages(footprint: Footprint, options: Options) -> bool:
    """Decide whether to read weights into huge pages, rather than to map their file.

    A token takes 0.85 to 1 of the time then, on a CPU. The memory is not shared with other
    programs, and the system cannot drop it and read it again when others need room.
    """
    if options.mmap or not on_cpu(options) or not huge_pages.available():
        return False
    host = memory()
    return host.free_bytes - footprint.weight_bytes > SPARE * host.total_bytes


def load_mode(options: Options, *, huge_pages: bool) -> int:
    """Choose how llama.cpp brings weights into memory, and whether they stay there."""
    mode: int = lib.LLAMA_LOAD_MODE_NONE if huge_pages else lib.LLAMA_LOAD_MODE_AUTO
    if options.direct_io:
        mode = lib.LLAMA_LOAD_MODE_DIRECT_IO
    elif options.mlock:
        mode = lib.LLAMA_LOAD_MODE_MLOCK if huge_pages else lib.LLAMA_LOAD_MODE_MMAP_MLOCK
    return mode


def set_up(
    weights: ModelWeights, options: Options, footprint: Footprint
) -> tuple[ContextShape, Context]:
    """Make a context; with 16-bit values as f16 where llama.cpp has no bf16 for a model (MLA)."""
    form = shape(weights, options, footprint)
    try:
        return form, Context(weights, form)
    except OutOfMemory:
        raise
    except BackendError:
        if form.kv_type != BIT_EXACT:
            raise
        form = replace(form, kv_type="f16")
        return form, Context(weights, form)


def shape(weights: ModelWeights, options: Options, footprint: Footprint) -> ContextShape:
    context = window = options.context or min(weights.context or CONTEXT, CONTEXT)
    if options.drafting:  # beyond what it was trained for its drafts would be noise
        window = min(window, options.draft.context, weights.context or window)
    # The second half of a recurrent model's sequences are checkpoints of the first.
    sequences = options.slots * (2 if weights.recurrent else 1)
    shared = pooled(weights, options)
    return ContextShape(
        sequences=sequences,
        pooled=shared,
        apart=on_cpu(options),
        cells=min(context, window * options.slots) if shared else window * options.slots,
        batch=options.batch,
        micro_batch=micro_batch(weights, options),
        outputs=max(min(options.slots * (options.tentative + 1), options.batch), sequences),
        snapshots=snapshots(weights, options),
        # Recurrent layers make llama.cpp cut a batch in pieces; a piece must not push out of a
        # window what taking back an earlier one still needs.
        full_windows=weights.recurrent,
        kv_type=kv_type(options, footprint),
        flash_attention=options.flash_attention,
        threads=options.threads or physical_cores(),
        threads_batch=threads_batch(options, footprint),
        fixed_threads=has_fixed_threads(options, footprint),
        pictured=options.projector is not None,
        watched=is_watched(weights, options),
    )


def micro_batch(weights: ModelWeights, options: Options) -> int:
    """Return how many tokens of a batch are computed at once.

    Heads and pictures want all of a batch; windows and states could lose in one piece what taking
    back another needs.
    """
    whole = options.head or options.projector or weights.recurrent or weights.window
    if options.micro_batch and whole:
        raise UsageError(
            f"micro_batch is {options.micro_batch}, and this model takes a batch as a whole, for "
            "its head, projector, windows or states: omit it, or give a smaller batch"
        )
    return min(options.micro_batch or options.batch, options.batch)


def threads_batch(options: Options, footprint: Footprint) -> int:
    """Return the threads of forwards of several tokens, which must round as those of one do."""
    threads = options.threads or physical_cores()
    count = options.threads_batch or threads
    if count != threads and options.bit_exact and not even(options, footprint):
        raise UsageError(
            f"bit_exact wants as many threads for one token ({threads}) as for several ({count}): "
            "omit threads_batch"
        )
    return count


def has_fixed_threads(options: Options, footprint: Footprint) -> bool:
    """Decide whether other programs leave the number of threads alone.

    llama.cpp's attention adds up a text in as many parts as there are threads, LocalSpec's does
    not.
    """
    differs = options.bit_exact and not even(options, footprint)
    chosen = (options.threads, options.threads_batch) != (None, None)
    return chosen or differs or not on_cpu(options)


def is_watched(weights: ModelWeights, options: Options) -> bool:
    """Decide whether a head's inputs are to be copied, as llama.cpp does not give them."""
    head = options.head
    if head is None or head == weights.path or weights.architecture in LAYER_INPUTS:
        return False
    return bool(head_kinds.layers_read(read(head)))


def snapshots(weights: ModelWeights, options: Options) -> int:
    """Count the states per slot to ask llama.cpp for, which may not have them.

    They cover one batch, and a draft model rolls over several; and they are lost when slots of
    different widths share a batch, as llama.cpp then moves states about.
    """
    single = options.slots == 1 and not options.drafting
    return min(options.tentative, MAX_SNAPSHOTS) if weights.recurrent and single else 0


def kv_type(options: Options, footprint: Footprint) -> str:
    """Choose the type of keys and values: f16, unless greedy texts are to be equal to the bit.

    With values as f16 llama.cpp takes another way for one token than for several, and rounds
    differently. bf16 has one way, which takes 1.4 to 2.5 times as long. It helps only where weights
    round alike in batches of any width. Beside LocalSpec's products f16 has one way, too.
    """
    if options.kv_type != "auto":
        return options.kv_type
    rounds_alike = footprint.quantisation.startswith(rounding.ROUND_ALIKE)
    helps = rounds_alike and options.flash_attention is not False and not options.drafting
    return BIT_EXACT if alike(options) and not even(options, footprint) and helps else "f16"


def pooled(weights: ModelWeights, options: Options) -> bool:
    """Decide whether all slots share one KV cache.

    Rows of any widths are run at once then, and one text may fill what the others leave. On a CPU
    it costs time: tokens of a prompt look at the cells of all slots, and take 2 to 3 times as long
    beside 4,400. And each text is summed up in the order in which it lies there, which depends on
    the others: equal to the bit are only texts with caches of their own. Checkpoints of recurrent
    layers need the shared one.
    """
    if weights.recurrent or not on_cpu(options):
        return True
    return bool(options.shared) and not options.bit_exact


def alike(options: Options) -> bool:
    """Decide whether batches of all widths are to be rounded alike, as llama.cpp can on a CPU."""
    return options.bit_exact and on_cpu(options)


def even(options: Options, footprint: Footprint) -> bool:
    """Return whether LocalSpec's products are used for all weights, which round alike as it is."""
    return footprint.even and options.own_products and on_cpu(options)


def probe() -> list[Device]:
    """List devices this build of llama.cpp can use; host memory as the system counts it."""
    return [place.device for place in devices.places()]


def build() -> Build:
    drivers = devices.drivers() if has_gpu() else ()
    unseen = devices.unseen()
    why = LOG.blind if unseen else ""
    made = records.installed(Path(sys.prefix))
    options = made.cmake if made else ()
    return Build(version("llama-cpp-python"), library.features(), drivers, unseen, why, options)
