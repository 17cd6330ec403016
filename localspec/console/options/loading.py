"""Options of how a model is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localspec.base.errors import UsageError
from localspec.console.options import workers
from localspec.console.options.declare import (
    COUNT,
    EXISTING,
    READABLE,
    TEXT,
    flag,
    option,
    read,
    repeated,
)
from localspec.console.options.kinds import ADAPTER, ENGINE, LAYERS, SHARES
from localspec.console.options.size import SIZE
from localspec.interfaces.adapter import Adapter
from localspec.interfaces.backend import (
    BATCH_MARGIN,
    BY_LAYER,
    CONTEXT,
    DRAFT_CONTEXT,
    MAX_TENTATIVE,
    METAL_PRODUCTS,
    NUMBERS,
    OWN_PRODUCTS,
    PRODUCTS,
    SPLIT_MODES,
    DraftOptions,
    Options,
)
from localspec.interfaces.other_machines import MEMBERS
from localspec.running.models.engines import AUTO

if TYPE_CHECKING:
    from localspec.running.runtime.loading import Loading

SWITCH = {"auto": None, "on": True, "off": False}


def _backend() -> str:
    help = "Engine that runs the model; `doctor` lists them. auto: by the model's files."
    return option(ENGINE, help, "auto|NAME", default=AUTO)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of commands that load nothing."""

    backend: str = _backend()


@dataclass(frozen=True, slots=True)
class DraftingOptions:
    """The proposers and the depth, for commands that do not choose them themselves."""

    proposer: str = option(
        TEXT,
        "Proposers that draft: auto, none, or names, e.g. ngram,draft-model.",
        "NAME,...",
        default="auto",
    )
    depth: int | None = option(
        click.IntRange(0, MAX_TENTATIVE), "Tokens to draft per round.", otherwise="by measured cost"
    )


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """Texts on disk to draft from, for commands that answer."""

    corpus: tuple[Path, ...] = repeated(
        EXISTING, "Texts that replies may repeat: a file, or a folder. May repeat.", "PATH"
    )
    learn: bool = flag(
        "Replies kept on this machine, to draft from them the next time; `localspec forget` "
        "removes them."
    )


@dataclass(frozen=True, slots=True)
class LoadingOptions:
    backend: str = _backend()
    draft: str | None = option(
        TEXT,
        "Smaller model, or drafting head, that drafts; none: without.",
        "NAME_OR_PATH",
        otherwise="the one that bench chose, else the one that was pulled with the model",
    )
    draft_context: int = option(
        COUNT,
        "Tokens of a text that the draft model reads at once: of a longer one the first few and "
        "the latest. Its drafts may be worse with fewer, and take less memory and time.",
        default=DRAFT_CONTEXT,
    )
    draft_device: str = option(
        TEXT, "Device of the draft model, as --device.", "auto|cpu|N", default="auto"
    )
    draft_gpu_layers: int | None = option(
        click.IntRange(0),
        "Number of the draft model's layers on GPUs.",
        otherwise="as of the model",
    )
    draft_kv_type: str | None = option(
        TEXT, "Type of the draft model's KV cache.", "TYPE|K,V", otherwise="as of the model"
    )
    draft_threads: int | None = option(
        COUNT, "Number of the draft model's CPU threads.", otherwise="as of the model"
    )
    context: int | None = option(
        COUNT,
        "Maximum tokens of a prompt and its reply together.",
        otherwise=f"the model's own, at most {CONTEXT:,}; less if memory is short",
    )
    batch: int | None = option(
        COUNT,
        "Tokens of a prompt read at once; more take more memory, and are faster for mixtures of "
        "experts on a GPU.",
        otherwise="512; with MLX on a GPU up to 2,048, by the model and the memory",
    )
    kv_type: str = option(
        TEXT,
        "Type of the KV cache, e.g. f16, q8_0 or q4_0, or one for keys and one for values. "
        "auto: 16 bits, or 8 where memory is short.",
        "auto|TYPE|K,V",
        default="auto",
    )
    bit_exact: bool = flag(
        "Same arithmetic in batches of any size: greedy text is the same to the bit alone, beside "
        "other requests and with drafts. llama.cpp on a CPU only. With LocalSpec's own products "
        "it costs nothing. With llama.cpp's it takes longer, and dense weights in Q4_0 to Q8_0, "
        "K-quants or IQ4_XS."
    )
    flash_attention: str = option(
        click.Choice(["auto", "on", "off"]),
        "Flash attention; switching it off can change greedy text where two tokens nearly tie.",
        default="auto",
    )
    device: str = option(
        TEXT, "Device: the CPU, or GPU number N, counted from 0.", "auto|cpu|N", default="auto"
    )
    budget: int | None = option(
        SIZE, "Maximum memory to use, e.g. 6GiB.", otherwise="all that is free but a reserve"
    )
    gpu_layers: int | None = option(
        click.IntRange(0), "Number of layers on GPUs.", otherwise="as many as fit"
    )
    split: tuple[float, ...] | None = option(
        SHARES, "Share of the layers per GPU, e.g. 3,1.", "SHARE,...", otherwise="by free memory"
    )
    split_mode: str = option(
        click.Choice(SPLIT_MODES),
        "What several GPUs divide: whole layers, or rows of each matrix (row), or these with the "
        "KV cache (tensor). Which is faster depends on the cards and their link.",
        default=BY_LAYER,
    )
    main_gpu: int | None = option(
        click.IntRange(0),
        "GPU for models that fit on one GPU, and for the draft model.",
        "N",
        otherwise="the one with the most free memory",
    )
    cpu_moe: int | None = option(
        LAYERS,
        "Number of layers, from the first, whose experts stay in host memory.",
        "auto|N",
        otherwise="as few as possible",
    )
    workers: str | None = workers.workers()
    threads: int | None = option(
        COUNT,
        "Number of CPU threads.",
        otherwise="one per physical core, fewer while others use them",
    )
    threads_batch: int | None = option(
        COUNT,
        "Number of CPU threads for forwards of several tokens: prompts and drafts.",
        otherwise="as --threads",
    )
    micro_batch: int | None = option(
        COUNT, "Tokens of a forward that are computed at once (llama.cpp).", otherwise="all"
    )
    mmap: bool = flag(
        "Weights mapped from their file instead of read into huge pages (llama.cpp on a CPU, "
        "Linux): loads faster and shares memory; a token takes up to 1.2 times as long."
    )
    mlock: bool = flag("Weights kept in memory, where the system would take it for others.")
    direct_io: bool = flag("Weights read past the system's cache of files, once.")
    products: str = option(
        click.Choice((*PRODUCTS, METAL_PRODUCTS)),
        "Whose matrix products a processor computes: LocalSpec's own, where llama.cpp was built "
        "with them, or llama.cpp's, to compare. own: LocalSpec's also with MLX on Metal, where "
        "they were never seen to run.",
        default=OWN_PRODUCTS,
    )
    compute: str = option(
        click.Choice(NUMBERS),
        "Numbers that MLX computes in: as the model was made, or float16 in place of bfloat16, "
        "which M1 and M2 lack; then check it by `localspec prove`.",
        default="auto",
    )
    adapter: tuple[Adapter, ...] = repeated(
        ADAPTER,
        "LoRA adapter for the model: a GGUF file, or a folder for MLX. Its scale is 1 where none "
        "is named. May repeat.",
        "FILE[:SCALE]",
    )
    mmproj: Path | None = option(
        READABLE,
        "Projector, by which the model takes pictures or sounds: a GGUF file.",
        "FILE",
        otherwise="the one that was pulled with the model or lies beside it",
    )
    no_mmproj: bool = flag("Text only, without the projector that lies beside the model.")
    no_mmproj_offload: bool = flag("Projector in host memory, not on a GPU.")
    verbose: bool = flag("Log of the engine on standard error.")


LOADING = (LoadingOptions, DraftingOptions, CorpusOptions)


def members() -> int:
    """Count the processes of the group that this one leads, if it leads one."""
    count = os.environ.get(MEMBERS, "1")
    if not count.isdecimal() or int(count) < 1:
        raise UsageError(f"{MEMBERS} is {count!r}; `localspec launch-group` sets it to a number")
    return int(count)


def read_loading(context: click.Context) -> Loading:
    """Make a `Loading` of a command that has all of `LOADING`."""
    options = read(context, LoadingOptions)
    return make_loading(options, read(context, DraftingOptions), read(context, CorpusOptions))


def make_loading(
    options: LoadingOptions,
    drafting: DraftingOptions | None = None,
    corpus: CorpusOptions | None = None,
) -> Loading:
    """Make a `Loading` of a command's options."""
    from localspec.running.memory.planner import Limits  # only here: it takes time to import
    from localspec.running.runtime.loading import Loading

    workers.use(options.workers)
    drafting, corpus = drafting or DraftingOptions(), corpus or CorpusOptions()
    if options.mmproj and options.no_mmproj:
        raise UsageError("--mmproj names a projector, and --no-mmproj is for none: omit one")
    limits = Limits(
        options.device,
        options.budget,
        main_gpu=options.main_gpu,
        text_only=options.no_mmproj,
        widens=options.batch is None,
    )
    return Loading(
        engine_options(options, drafting.depth or 0),
        drafting.proposer,
        drafting.depth,
        options.backend,
        limits,
        corpus=corpus.corpus,
        learn=corpus.learn,
    )


def engine_options(options: LoadingOptions, depth: int) -> Options:
    """Make the options of an engine, for drafts of at least so many tokens."""
    tentative = max(depth, Options().tentative)
    batch = options.batch or max(Options().batch, tentative + BATCH_MARGIN)
    if options.micro_batch and options.micro_batch > batch:
        raise UsageError(
            f"--micro-batch {options.micro_batch:,} is more than a batch, {batch:,} tokens: give "
            f"--batch {options.micro_batch}, too"
        )
    return Options(
        context=options.context,
        batch=batch,
        micro_batch=options.micro_batch,
        tentative=tentative,
        kv_type=options.kv_type,
        flash_attention=SWITCH[options.flash_attention],
        gpu_layers=options.gpu_layers,
        split=options.split or (),
        split_mode=options.split_mode,
        cpu_moe=options.cpu_moe,
        bit_exact=options.bit_exact,
        threads=options.threads,
        threads_batch=options.threads_batch,
        mmap=options.mmap,
        mlock=options.mlock,
        direct_io=options.direct_io,
        products=options.products,
        compute=options.compute,
        draft=DraftOptions(
            options.draft_context,
            options.draft_device,
            options.draft_gpu_layers,
            options.draft_kv_type,
            options.draft_threads,
        ),
        members=members(),
        adapters=options.adapter,
        projector=options.mmproj,
        projector_on_host=options.no_mmproj_offload,
        verbose=options.verbose,
    )
