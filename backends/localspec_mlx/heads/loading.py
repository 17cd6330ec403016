"""Load the head of a model, from its own folder or from one beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.utils import load_model

from localspec.base.errors import ModelFileError, OutOfMemory, UsageError
from localspec.interfaces.backend import Footprint
from localspec_mlx import tuning
from localspec_mlx.blueprint import Blueprint, own
from localspec_mlx.devices import short_of_memory
from localspec_mlx.folder import config as configuration
from localspec_mlx.folder import drafters, shards
from localspec_mlx.folder.config import Config
from localspec_mlx.folder.drafters import ASSISTANTS, LAYERSKIP, MTP, drafter, files
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.thinning import model_of_first_layers
from localspec_mlx.halves import convert
from localspec_mlx.heads.assistant import Assistant, target_keys
from localspec_mlx.heads.dflash import Blocks, DFlash, filled_by
from localspec_mlx.heads.eagle import Eagle
from localspec_mlx.heads.eagle3 import Eagle3, layers_read
from localspec_mlx.heads.first_layers import first_layers, lend
from localspec_mlx.heads.mtp import QwenHead
from localspec_mlx.heads.own_keys import OwnKeys
from localspec_mlx.heads.reader import LoadedHead
from localspec_mlx.heads.stages import StagedHead, StageReader, medusa, speculator
from localspec_mlx.heads.tap import Tap
from localspec_mlx.heads.target import body
from localspec_mlx.layers import arrays_in
from localspec_mlx.slots import CacheSlots
from localspec_mlx.trial import width


class Settings:
    """A configuration as it is written: a head reads it by itself."""

    @staticmethod
    def from_dict(config: Mapping[str, Any]) -> Mapping[str, Any]:
        return config


class HeadFolder(NamedTuple):
    """A folder with a head, and the model that is loaded already."""

    path: Path
    config: Config
    target: Blueprint
    vocabulary: int

    @property
    def inner(self) -> Module:
        return body(self.target.model)


def load(folder: Path, footprint: Footprint, target: Blueprint) -> LoadedHead:
    """Load a head for a model that is loaded already, and watch what it reads of that model."""
    require_fit(folder, footprint)
    try:
        config = configuration.read(folder)
        kind = LAYERSKIP if model_of_first_layers(config) else drafter(config) or MTP
        return MAKERS[kind](HeadFolder(folder, config, target, footprint.vocabulary))
    except Exception as error:  # of whatever kind: definitions of all sorts run here
        if short_of_memory(error):
            raise OutOfMemory(f"there was no memory for the head in {folder.name}") from error
        raise ModelFileError(f"the head in {folder.name} cannot be loaded: {error}") from error


def mtp(folder: HeadFolder) -> LoadedHead:
    tap, target = Tap([folder.inner.norm]), folder.target
    if folder.config.model_type not in ASSISTANTS:
        layers = weighed(
            folder.path, partial(QwenHead, target.model, as_stored(folder.path)), target.model
        )
        return LoadedHead(MTP, tap, with_own_keys(layers, target))
    if not target.own:
        raise ValueError("its target keeps what it would look at in a way of its own")
    assistant = weighed(folder.path, partial(Assistant, target.model), target.model)
    return LoadedHead(MTP, tap, partial(target_keys, assistant))


def eagle(folder: HeadFolder) -> LoadedHead:
    layers = weighed(folder.path, partial(Eagle, folder.target.model), folder.target.model)
    tap = Tap([folder.inner.norm])
    return LoadedHead(drafters.EAGLE, tap, with_own_keys(layers, folder.target))


def eagle3(folder: HeadFolder) -> LoadedHead:
    target = folder.target.model
    layers = weighed(folder.path, partial(Eagle3, target, folder.vocabulary), target)
    inner = folder.inner
    places = layers_read(folder.config.values, len(inner.layers))
    reads = [inner.layers[at] if at >= 0 else inner.embed_tokens for at in places]
    return LoadedHead(drafters.EAGLE3, Tap(reads), with_own_keys(layers, folder.target))


def dflash(folder: HeadFolder) -> LoadedHead:
    head = weighed(folder.path, partial(DFlash, folder.target.model))  # in float16 it overflows
    alike, layers = kept(head, folder.target), folder.inner.layers
    reads = [layers[at] for at in filled_by(folder.config.values, len(layers))]
    return LoadedHead(drafters.DFLASH, Tap(reads), lambda _, count: Blocks(head, alike, count))


def stages(folder: HeadFolder) -> LoadedHead:
    head = staged(folder.config, folder.target.model, folder.vocabulary)
    name = drafter(folder.config)
    return LoadedHead(name, Tap([folder.inner.norm]), lambda _, count: StageReader(head, count))


def staged(config: Config, target: Module, vocabulary: int) -> StagedHead:
    """Load a head with a stage for each token; numbers are of the kind of the target's states."""
    weights: dict[str, mx.array] = {}
    for path in shards.read(config.path.parent, pattern=files(config)).paths:
        loaded: Any = mx.load(str(path))
        weights |= loaded
    make = medusa if drafter(config) == drafters.MEDUSA else speculator
    head = make(target, config, weights, vocabulary)
    head.set_dtype(body(target).norm.weight.dtype)
    mx.eval(list(arrays_in(dict(head))))
    return head


def layerskip(folder: HeadFolder) -> LoadedHead:
    """Load layers of the target with its weights; their files are only laid out."""
    target = folder.target
    model: Module = load_model(folder.path, lazy=True)[0]
    lend(target.model, model)
    mx.eval(list(arrays_in(dict(model))))
    tuning.tune(model)
    layers = own(model, slack=0)
    if layers is None or target.recurrent:
        raise ValueError("its target keeps more than keys and values")
    if width(model) != folder.vocabulary:
        raise ValueError(f"it has logits for {width(model):,} tokens, not {folder.vocabulary:,}")
    return LoadedHead(LAYERSKIP, Tap([]), partial(first_layers, layers), ahead=False)


MAKERS: Mapping[str, Callable[[HeadFolder], LoadedHead]] = {
    MTP: mtp,
    drafters.EAGLE: eagle,
    drafters.EAGLE3: eagle3,
    drafters.DFLASH: dflash,
    drafters.MEDUSA: stages,
    drafters.SPECULATOR: stages,
    LAYERSKIP: layerskip,
}


def with_own_keys(layers: Any, target: Blueprint) -> Callable[[CacheSlots, int], OwnKeys]:
    """Let a head keep keys and values of its own."""
    alike = kept(layers, target)
    return lambda _, count: OwnKeys(layers, alike, count)


def kept(layers: Any, target: Blueprint) -> Blueprint:
    """Build the caches of a head, whose rows run as its target's do."""
    blueprint = own(layers, slack=0)
    assert blueprint is not None  # mlx-lm gives layers without a wish the usual cache
    return blueprint.shared(target.sharing)


def weighed(
    folder: Path, make: Callable[[Mapping[str, Any]], Module], target: Module | None = None
) -> Any:
    """Load the weights of a head, as mlx-lm loads those of a model.

    It computes in float16 where its target does. Without one it keeps its numbers, and computes in
    32 bits beside such a target.
    """
    head = load_model(folder, get_model_classes=lambda config: (make, Settings))[0]
    if target is not None and body(target).norm.weight.dtype == mx.float16:
        convert(head, folder.name)
    mx.eval(list(arrays_in(dict(head))))  # which another thread could not work out
    tuning.tune(head)
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
    if head.drafter == LAYERSKIP:
        model = model_of_first_layers(configuration.read(folder))
        if model != target.path.resolve():
            raise ModelFileError(f"{made}: it holds the first layers of {model}")
    if head.embedding not in (0, target.embedding):
        numbers = f"{head.embedding:,} numbers, the model's {target.embedding:,}"
        raise ModelFileError(f"{made}: it is for hidden states of {numbers}")
    if head.vocabulary not in (0, target.vocabulary):
        tokens = f"{head.vocabulary:,} tokens, the model {target.vocabulary:,}"
        raise ModelFileError(f"{made}: it has {tokens}")


def as_stored(folder: Path) -> frozenset[str]:
    """Name the tensors that MLX has not converted."""
    names: set[str] = set()
    for path in shards.read(folder).paths:
        loaded: Any = mx.load(str(path), return_metadata=True)
        arrays, about = loaded
        if about.get("format") != "mlx":
            names |= arrays.keys()
    return frozenset(names)
