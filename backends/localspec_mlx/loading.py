"""Load an MLX folder, with what was not asked for chosen for this machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.utils import load_adapters, load_model

from localspec.backend import Options
from localspec.errors import ModelFileError, UsageError
from localspec_mlx.blueprint import Blueprint
from localspec_mlx.devices import prepare, probe
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.tokenizer import load_tokenizer
from localspec_mlx.layers import arrays_in
from localspec_mlx.model import MlxModel
from localspec_mlx.trial import proven, width

CONTEXT = 8192  # tokens, where the model was trained for more and none were asked for
BITS = {"q8_0": 8, "q4_0": 4}


def load(path: Path, options: Options) -> MlxModel:
    """Load a model; its files are checked first."""
    _check(options)
    footprint = inspect(path)
    prepare()
    model = _weights(path, options.adapter)
    context = options.context or min(footprint.context, CONTEXT)
    if options.drafting:  # beyond what it was trained for its guesses would be noise
        context = min(context, footprint.context)
    slack = options.batch + 2 * options.tentative
    blueprint = proven(model, slack, options.slots, BITS.get(options.kv_type))
    if options.verbose:
        _report(blueprint)
    tokenizer = load_tokenizer(path, width(model))
    return MlxModel(blueprint, tokenizer, replace(options, context=context))


def _weights(path: Path, adapter: Path | None) -> Module:
    try:
        model: Module = load_model(path)[0]
    except Exception as error:  # of whatever kind: definitions of all sorts run here
        raise ModelFileError(f"{path.name} cannot be loaded: {error}") from error
    if adapter is not None:
        try:
            model = load_adapters(model, str(adapter))
        except Exception as error:
            raise ModelFileError(f"the adapter {adapter} does not fit: {error}") from error
        model.eval()
    # Tables that a definition keeps for itself too: another thread could not work them out.
    mx.eval(list(arrays_in(dict(model))))
    return model


def _report(blueprint: Blueprint) -> None:
    whose = "ours" if blueprint.own else "mlx-lm's"
    [device] = probe()
    where = f"{device.name} ({device.kind})"
    print(f"mlx: on {where}, caches are {whose}, rows run {blueprint.sharing}", file=sys.stderr)


def _check(options: Options) -> None:
    known = ("auto", *BITS)
    if options.kv_type not in known:
        raise UsageError(
            f"KV type {options.kv_type!r} is not for MLX, which keeps what the model computes "
            f"(auto) or quantises it; known: {', '.join(known)}"
        )
    for name, value in (
        ("gpu_layers", options.gpu_layers),
        ("threads", options.threads),
        ("flash_attention", options.flash_attention),
    ):
        if value is not None:
            raise UsageError(f"{name} is for llama.cpp; MLX decides that itself: leave it away")
