"""Load an MLX folder, and choose for this machine what the options leave open."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
from mlx.nn.layers.base import Module

from localspec.base.errors import ModelFileError, OutOfMemory, UsageError
from localspec.interfaces.backend import (
    BY_LAYER,
    CONTEXT,
    METAL_PRODUCTS,
    Footprint,
    Options,
    Progress,
    silent,
)
from localspec_mlx import products, tuning
from localspec_mlx.adapters import AdapterLayers
from localspec_mlx.blueprint import Blueprint, native
from localspec_mlx.chain import LOOK
from localspec_mlx.devices import failure, keep_buffers, prepare, probe, short_of_memory
from localspec_mlx.folder import config as configuration
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.skeleton import lazy_model
from localspec_mlx.folder.tokenizer import load_tokenizer
from localspec_mlx.group import Call, Group, load_request
from localspec_mlx.halves import NOTICE, convert, require_finite
from localspec_mlx.heads import loading as heads
from localspec_mlx.layers import arrays_in
from localspec_mlx.leading import LeadingModel
from localspec_mlx.model import MlxModel
from localspec_mlx.towers.loading import open_sight, with_room
from localspec_mlx.trial import proven, width
from localspec_mlx.working import working

LOG = logging.getLogger(__name__)
BITS = {"q8_0": 8, "q4_0": 4}
GROUP: list[Group] = []  # that this process is a member of, if it is of one


def join(group: Group) -> None:
    """Load models together with other processes from now on."""
    GROUP[:] = [group]


def load(path: Path, options: Options, tell: Progress = silent) -> MlxModel:  # noqa: ARG001
    """Load a model; its files are checked first."""
    check(options)
    footprint = inspect(path)
    options = with_room(path, options)
    prepare()
    group = shared(options)
    if group and group.leads:
        group.tell(Call.LOAD, load_request(path, options))
    model = load_weights(path)
    adapters = AdapterLayers(model, options.adapters)
    division = group.divide(model, footprint.kv_heads) if group else ""
    halved = convert(model, path.name) if options.compute == "float16" else 0
    read_weights(model, path)
    tuning.tune(model, ways_for(options))
    if division == "layers":  # of mlx-lm's caches a definition makes sending depend
        blueprint = native(model)
    else:
        blueprint = proven(model, slack(options), options.slots, BITS.get(options.kv_type))
    if options.verbose:
        _report(blueprint)
    tokenizer = load_tokenizer(path, width(model))
    if halved:
        require_finite(blueprint, tokenizer, path.name)
    options = replace(options, context=context(footprint, options))
    if group and group.leads:
        return LeadingModel(blueprint, tokenizer, options, group)
    head = heads.load(options.head, footprint, blueprint) if options.head else None
    loaded = MlxModel(blueprint, tokenizer, options, head, adapters)
    if options.projector:
        loaded.see_by(open_sight(path, blueprint, tokenizer))
    loaded.notices += [f"{path.name} {NOTICE}"] if halved else []
    keep_buffers(loaded, working(footprint, options, loaded.context))
    return loaded


def shared(options: Options) -> Group | None:
    """Find the group that is to run a model together."""
    if options.members < 2:
        return None
    if not GROUP:
        raise UsageError("this process is in no group: start it by `localspec launch-group`")
    return GROUP[0]


def context(footprint: Footprint, options: Options) -> int:
    """Count the tokens that a slot can hold."""
    tokens = options.context or min(footprint.context, CONTEXT)
    if not options.drafting:
        return tokens
    # Beyond what a draft model was trained for its drafts would be noise.
    return min(tokens, options.draft.context, footprint.context)


def slack(options: Options) -> int:
    """Count the tokens that a window must have room for beside its own.

    They are those of one forward, of which all but the first may be taken back, or of a roll, which
    ends some tokens after its last.
    """
    return options.batch + LOOK


def load_weights(path: Path) -> Module:
    try:
        return lazy_model(configuration.read(path))
    except Exception as error:  # of whatever kind: definitions of all sorts run here
        if short_of_memory(error):
            raise OutOfMemory(f"there was no memory for {path.name}: {error}") from error
        raise ModelFileError(f"{path.name} cannot be loaded: {error}") from error


def read_weights(model: Module, path: Path) -> None:
    """Read all weights, also tables that only a definition's own thread could work out."""
    try:
        mx.eval(list(arrays_in(dict(model))))
    except RuntimeError as error:
        raise failure(f"MLX could not read {path.name}", error) from error


def ways_for(options: Options) -> Mapping[str, products.Way]:
    """List the ways to multiply that these options allow."""
    asked = options.products == METAL_PRODUCTS
    if asked and not mx.metal.is_available():
        LOG.warning("--products own has no effect here: MLX has no Metal")
        return products.WAYS
    return products.ways(asked)


def _report(blueprint: Blueprint) -> None:
    whose = "ours" if blueprint.own else "mlx-lm's"
    [device] = probe()
    where = f"{device.name} ({device.kind})"
    print(f"mlx: on {where}, caches are {whose}, rows run {blueprint.sharing}", file=sys.stderr)
    for kind, ways in tuning.MEASURED.items():
        print(f"mlx: products {kind[1:]} by rows: {ways.chosen}", file=sys.stderr)


def check(options: Options) -> None:
    """Refuse options that MLX lacks."""
    names = ("auto", *BITS)
    if options.kv_type not in names:
        raise UsageError(
            f"KV type {options.kv_type!r} is not for MLX, which keeps what the model computes "
            f"(auto) or quantises it; known: {', '.join(names)}"
        )
    if options.bit_exact:
        raise UsageError("texts can be equal to the bit with llama.cpp on a CPU only, not with MLX")
    for_one = (options.head, options.adapters, options.projector, options.pooling)
    if options.members > 1 and (any(for_one) or options.compute != "auto"):
        one = "heads, adapters, pictures, vectors and float16 are for one machine"
        raise UsageError(f"{one}: omit them in a group")
    if options.pooling and options.adapters:
        raise UsageError(
            "on MLX vectors would change with the adapters of the text that runs beside: omit "
            "--pooling or --adapter"
        )
    if options.gpu_layers == 0 and mx.default_device() != mx.cpu:
        raise UsageError("MLX runs on the GPU here: choose another device, or another --backend")
    for name, value in (
        ("gpu_layers", options.gpu_layers or None),
        ("split", options.split or None),
        ("cpu_moe", options.cpu_moe),
        ("split_mode", None if options.split_mode == BY_LAYER else options.split_mode),
        ("threads", options.threads),
        ("threads_batch", options.threads_batch),
        ("micro_batch", options.micro_batch),
        ("mlock", options.mlock or None),
        ("direct_io", options.direct_io or None),
        ("flash_attention", options.flash_attention),
        ("projector_on_host", options.projector_on_host or None),
    ):
        if value is not None:
            raise UsageError(f"{name} is for llama.cpp; MLX decides that itself: omit it")
