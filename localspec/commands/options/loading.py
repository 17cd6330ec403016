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
    help = "The engine, as `doctor` lists them; a file or a folder decides for itself."
    return option(Engine(), help, "auto|NAME", default=AUTO)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Options of commands that load nothing."""

    backend: str = _backend()


@dataclass(frozen=True, slots=True)
class DraftingOptions:
    """The proposers and the depth, for commands that do not choose them themselves."""

    proposer: str = option(
        TEXT, "Proposers: auto, none, or names as ngram,draft-model.", "NAME,...", default="auto"
    )
    depth: int | None = option(
        click.IntRange(0, 64),
        "Tokens to draft in a round; chosen by measurement if not given.",
    )


@dataclass(frozen=True, slots=True)
class LoadingOptions:
    backend: str = _backend()
    draft: str | None = option(TEXT, "A smaller model, or a head, that drafts.", "NAME_OR_PATH")
    context: int | None = option(COUNT, "Tokens of prompt and reply together.")
    kv_type: str = option(
        TEXT,
        "Precision of keys and values, or of each: f16, q8_0, q4_0 and so on; else 16 bits.",
        "auto|TYPE|K,V",
        default="auto",
    )
    bit_exact: bool = flag(
        "Greedy text equal to the bit, alone, beside others and with drafts: llama.cpp on a "
        "CPU, weights as Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0. Tokens take 1.4 to 2.5 times as long."
    )
    flash_attention: str = option(
        click.Choice(["auto", "on", "off"]), "Without it, a CPU may turn near-ties.", default="auto"
    )
    device: str = option(TEXT, "Where to run; N: the Nth GPU.", "auto|cpu|N", default="auto")
    budget: int | None = option(
        Bytes(), "Most memory to take, as 6GiB; else what is free, but for a reserve."
    )
    gpu_layers: int | None = option(click.IntRange(0), "Layers on the GPU; else all.")
    split: tuple[float, ...] | None = option(
        Shares(), "Shares of the GPUs in the layers, as 3,1; else by their room.", "SHARE,..."
    )
    main_gpu: int | None = option(
        click.IntRange(0), "The GPU for a model that one can hold, and for the draft model.", "N"
    )
    cpu_moe: int | None = option(
        Layers(), "Layers, the first ones, whose experts stay in host memory.", "auto|N"
    )
    workers: str | None = workers.workers()
    threads: int | None = option(COUNT, "CPU threads; else one per physical core.")
    mmap: bool = flag(
        "Map weights from their file also where they would be read into huge pages (llama.cpp on a "
        "CPU, Linux): loads faster, shares memory; a token takes up to 1.2 times as long."
    )
    adapter: Path | None = option(
        EXISTING, "A LoRA adapter to put on the model, if its engine can: MLX takes a folder."
    )
    verbose: bool = flag("Show the engine's log.")


LOADING = (LoadingOptions, DraftingOptions)


def members() -> int:
    """Count the processes of the group that this one leads, if it leads one."""
    said = os.environ.get(MEMBERS, "1")
    if not said.isdecimal() or int(said) < 1:
        raise UsageError(f"{MEMBERS} is {said!r}; `localspec launch-group` sets it to a number")
    return int(said)


def loading(wanted: LoadingOptions, drafting: DraftingOptions | None = None) -> Loading:
    """Make the loading that the options wish."""
    from localspec.memory.planner import Limits  # only here: it takes time to import
    from localspec.runtime.loading import Loading

    workers.use(wanted.workers)
    drafting = drafting or DraftingOptions()
    options = Options(
        context=wanted.context,
        tentative=max(drafting.depth or 0, Options().tentative),
        kv_type=wanted.kv_type,
        flash_attention=SWITCH[wanted.flash_attention],
        gpu_layers=wanted.gpu_layers,
        split=wanted.split or (),
        cpu_moe=wanted.cpu_moe,
        bit_exact=wanted.bit_exact,
        threads=wanted.threads,
        mmap=wanted.mmap,
        members=members(),
        adapter=wanted.adapter,
        verbose=wanted.verbose,
    )
    limits = Limits(wanted.device, wanted.budget, main_gpu=wanted.main_gpu)
    return Loading(options, drafting.proposer, drafting.depth, wanted.backend, limits)
