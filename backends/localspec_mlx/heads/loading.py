"""Load the head of a model, from its own folder or from one beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.utils import load_model

from localspec.backend import Footprint
from localspec.errors import ModelFileError, OutOfMemory, UsageError
from localspec_mlx import products
from localspec_mlx.blueprint import Blueprint, own
from localspec_mlx.devices import short_of_memory
from localspec_mlx.folder import config as configuration
from localspec_mlx.folder import shards
from localspec_mlx.folder.config import Config
from localspec_mlx.folder.drafters import (
    ASSISTANTS,
    DFLASH,
    EAGLE3,
    MEDUSA,
    MTP,
    SPECULATOR,
    drafter,
    files,
)
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.heads.assistant import Assistant, TargetKeys
from localspec_mlx.heads.dflash import Blocks, DFlash, filled_by
from localspec_mlx.heads.eagle3 import Eagle3, layers_read
from localspec_mlx.heads.head import LoadedHead
from localspec_mlx.heads.mtp import QwenHead
from localspec_mlx.heads.own_keys import OwnKeys
from localspec_mlx.heads.stages import Medusa, Speculator, StageReader
from localspec_mlx.heads.tap import Tap
from localspec_mlx.heads.target import body
from localspec_mlx.layers import arrays_in
from localspec_mlx.slots import CacheSlots

STAGED: Mapping[str, type[Medusa] | type[Speculator]] = {MEDUSA: Medusa, SPECULATOR: Speculator}


class Settings:
    """A configuration as it is written: a head reads it by itself."""

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> Mapping[str, Any]:
        return config


def load(folder: Path, footprint: Footprint, target: Blueprint) -> LoadedHead:
    """Load a head for a model that is loaded already, and watch what it reads of that model."""
    require_fit(folder, footprint)
    try:
        return made(folder, target, footprint.vocabulary)
    except Exception as error:  # of whatever kind: definitions of all sorts run here
        if short_of_memory(error):
            raise OutOfMemory(f"there was no memory for the head in {folder.name}") from error
        raise ModelFileError(f"the head in {folder.name} cannot be loaded: {error}") from error


def made(folder: Path, target: Blueprint, vocabulary: int) -> LoadedHead:
    config = configuration.read(folder)
    inner = body(target.model)
    if config.model_type in ASSISTANTS:
        if not target.own:
            raise ValueError("its target keeps what it would look at in a way of its own")
        assistant = weighed(folder, partial(Assistant, target.model))
        return LoadedHead(MTP, Tap([inner.norm]), partial(TargetKeys, assistant))
    if drafter(config) == EAGLE3:
        layers = weighed(folder, partial(Eagle3, target.model, vocabulary))
        places = layers_read(config.values, len(inner.layers))
        reads = [inner.layers[at] if at >= 0 else inner.embed_tokens for at in places]
        return LoadedHead(EAGLE3, Tap(reads), keeping(layers, target))
    if drafter(config) == DFLASH:
        head = weighed(folder, partial(DFlash, target.model))
        alike = kept(head, target)
        reads = [inner.layers[at] for at in filled_by(config.values, len(inner.layers))]
        return LoadedHead(DFLASH, Tap(reads), lambda _, count: Blocks(head, alike, count))
    if drafter(config) in STAGED:
        stages = staged(config, target.model, vocabulary)
        return LoadedHead(
            drafter(config), Tap([inner.norm]), lambda _, count: StageReader(stages, count)
        )
    layers = weighed(folder, partial(QwenHead, target.model, as_stored(folder)))
    return LoadedHead(MTP, Tap([inner.norm]), keeping(layers, target))


def staged(config: Config, target: Module, vocabulary: int) -> Medusa | Speculator:
    """Load a head with a stage for each token; numbers are of the kind of the target's states."""
    weights: dict[str, mx.array] = {}
    for path in shards.read(config.path.parent, pattern=files(config)).paths:
        loaded: Any = mx.load(str(path))
        weights |= loaded
    head = STAGED[drafter(config)](target, config, weights, vocabulary)
    head.set_dtype(body(target).norm.weight.dtype)
    mx.eval(list(arrays_in(dict(head))))
    return head


def keeping(layers: Any, target: Blueprint) -> Callable[[CacheSlots, int], OwnKeys]:
    """Let a head keep keys and values of its own."""
    alike = kept(layers, target)
    return lambda _, count: OwnKeys(layers, alike, count)


def kept(layers: Any, target: Blueprint) -> Blueprint:
    """Build the caches of a head, whose rows run as its target's do."""
    blueprint = own(layers, slack=0)
    assert blueprint is not None  # mlx-lm gives layers without a wish the usual cache
    return blueprint.shared(target.sharing)


def weighed(folder: Path, make: Callable[[Mapping[str, Any]], Module]) -> Any:
    """Load the weights of a head, as mlx-lm loads those of a model."""
    head = load_model(folder, get_model_classes=lambda config: (make, Settings))[0]
    mx.eval(list(arrays_in(dict(head))))  # which another thread could not work out
    products.tune(head)
    return head


def require_fit(folder: Path, target: Footprint) -> None:
    """Refuse a head that is not there, or was made for another target."""
    if folder == target.path:
        if not target.drafting_layers:
            raise UsageError(f"{folder.name} has no drafting head (MTP) inside")
        return
    head = inspect(folder)
    if not head.drafter:
        raise UsageError(f"{folder.name} is no drafting head: give it as a draft model")
    made = f"{folder.name} was made for another model than {target.path.name}"
    if head.embedding not in (0, target.embedding):
        numbers = f"{head.embedding:,} numbers, the model's {target.embedding:,}"
        raise ModelFileError(f"{made}: it is for hidden states of {numbers}")
    if head.vocabulary not in (0, target.vocabulary):
        tokens = f"{head.vocabulary:,} tokens, the model {target.vocabulary:,}"
        raise ModelFileError(f"{made}: it has {tokens}")


def as_stored(folder: Path) -> frozenset[str]:
    """Name the tensors that MLX has not converted."""
    found: set[str] = set()
    for path in shards.read(folder).paths:
        loaded: Any = mx.load(str(path), return_metadata=True)
        arrays, about = loaded
        if about.get("format") != "mlx":
            found |= arrays.keys()
    return frozenset(found)
