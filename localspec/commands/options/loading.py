"""Options of how a model is loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localspec.backend import Options
from localspec.backend_spec import MEMBERS
from localspec.commands.options import workers
from localspec.commands.options.declare import COUNT, EXISTING, TEXT, flag, option
from localspec.commands.options.engine import Engine
from localspec.commands.options.placing import Layers, Shares
from localspec.commands.options.size import Bytes
from localspec.errors import UsageError
from localspec.models.engines import AUTO

if TYPE_CHECKING:
    from localspec.runtime.loading import Loading

SWITCH = {"auto": None, "on": True, "off": False}


def _backend() -> str:
    help = "Engine to use. `doctor` lists them; auto takes the one that the files are for."
    return option(Engine(), help, "auto|NAME", default=AUTO)


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
        click.IntRange(0, 64),
        "Draft always N tokens in a round. Without it, measured costs decide.",
    )


@dataclass(frozen=True, slots=True)
class LoadingOptions:
    backend: str = _backend()
    draft: str | None = option(
        TEXT, "Draft with this smaller model or drafting head.", "NAME_OR_PATH"
    )
    context: int | None = option(COUNT, "Tokens that a prompt and its reply may have together.")
    kv_type: str = option(
        TEXT,
        "Type of the KV cache, e.g. f16, q8_0 or q4_0, or one for keys and one for values. Auto "
        "is 16 bits.",
        "auto|TYPE|K,V",
        default="auto",
    )
    bit_exact: bool = flag(
        "Compute alike in batches of any size, so that greedy text is the same to the bit alone, "
        "beside others and with drafts. For llama.cpp on a CPU and weights in Q4_0, Q4_1, Q5_0, "
        "Q5_1 or Q8_0. Tokens take 1.4 to 2.5 times as long."
    )
    flash_attention: str = option(
        click.Choice(["auto", "on", "off"]),
        "Use flash attention. Without it, greedy text can differ where two tokens nearly tie.",
        default="auto",
    )
    device: str = option(
        TEXT, "Run on the CPU, or on GPU number N, counted from 0.", "auto|cpu|N", default="auto"
    )
    budget: int | None = option(
        Bytes(), "Memory to use at most, e.g. 6GiB. Without it, all that is free but a reserve."
    )
    gpu_layers: int | None = option(
        click.IntRange(0), "Put N layers on the GPUs. Without it, as many as fit."
    )
    split: tuple[float, ...] | None = option(
        Shares(), "Split layers across GPUs, e.g. 3,1. Without it, by free memory.", "SHARE,..."
    )
    main_gpu: int | None = option(
        click.IntRange(0), "Put the draft model, and models that fit on one GPU, on GPU N.", "N"
    )
    cpu_moe: int | None = option(
        Layers(), "Keep the experts of the first N layers in host memory.", "auto|N"
    )
    workers: str | None = workers.workers()
    threads: int | None = option(
        COUNT, "Compute with N CPU threads. Without it, one per physical core."
    )
    mmap: bool = flag(
        "Map weights from their file in place of reading them into huge pages (llama.cpp on a "
        "CPU, Linux). Loads faster and shares memory; a token takes up to 1.2 times as long."
    )
    adapter: Path | None = option(
        EXISTING, "Put this LoRA adapter, a folder, on the model. Only MLX can."
    )
    verbose: bool = flag("Print the engine's log.")


LOADING = (LoadingOptions, DraftingOptions)


def members() -> int:
    """Count the processes of the group that this one leads, if it leads one."""
    count = os.environ.get(MEMBERS, "1")
    if not count.isdecimal() or int(count) < 1:
        raise UsageError(f"{MEMBERS} is {count!r}; `localspec launch-group` sets it to a number")
    return int(count)


def make_loading(chosen: LoadingOptions, drafting: DraftingOptions | None = None) -> Loading:
    """Make the loading that the options wish."""
    from localspec.memory.planner import Limits  # only here: it takes time to import
    from localspec.runtime.loading import Loading

    workers.use(chosen.workers)
    drafting = drafting or DraftingOptions()
    options = Options(
        context=chosen.context,
        tentative=max(drafting.depth or 0, Options().tentative),
        kv_type=chosen.kv_type,
        flash_attention=SWITCH[chosen.flash_attention],
        gpu_layers=chosen.gpu_layers,
        split=chosen.split or (),
        cpu_moe=chosen.cpu_moe,
        bit_exact=chosen.bit_exact,
        threads=chosen.threads,
        mmap=chosen.mmap,
        members=members(),
        adapter=chosen.adapter,
        verbose=chosen.verbose,
    )
    limits = Limits(chosen.device, chosen.budget, main_gpu=chosen.main_gpu)
    return Loading(options, drafting.proposer, drafting.depth, chosen.backend, limits)
