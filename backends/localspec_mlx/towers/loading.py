"""Load the tower in a model's folder, and measure what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm.utils import load_model

from localspec.base.errors import ModelFileError, OutOfMemory, UsageError, one_line
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Options
from localspec_mlx.blueprint import Blueprint
from localspec_mlx.devices import short_of_memory
from localspec_mlx.folder import shards
from localspec_mlx.folder.pictures import PictureSettings, is_of_pictures, picture_settings
from localspec_mlx.heads.loading import Settings
from localspec_mlx.heads.target import body
from localspec_mlx.sight import FLOAT, KEPT_BYTES, MlxSight
from localspec_mlx.towers.gemma4 import Gemma4Tower
from localspec_mlx.towers.siglip import Gemma3Tower
from localspec_mlx.working import FUSED_WIDTHS, SCORE_BYTES

MAKERS: Mapping[str, Callable[[PictureSettings], Module]] = {
    "gemma3": Gemma3Tower,
    "gemma4": Gemma4Tower,
}
PARAGRAPH = "\n\n"  # that Gemma 3 has around a picture
STATES = 16  # numbers for each of a patch's, alive at once; and two for those inside a layer


def with_room(path: Path, options: Options) -> Options:
    """Give batches room for a picture that is read at once."""
    if not options.projector:
        return options
    if options.projector.resolve() != path.resolve():
        name = options.projector.name
        raise UsageError(
            f"{name} is for a GGUF: an MLX folder sees by its own tower, if it has one; omit it"
        )
    settings = picture_settings(path)
    least = 0 if settings.both_ways == "nowhere" else settings.most
    return replace(options, batch=max(options.batch, least))


def open_sight(path: Path, blueprint: Blueprint, tokenizer: Tokenizer) -> MlxSight:
    """Load the tower of a model that is loaded already."""
    settings = picture_settings(path)
    if not blueprint.own and settings.both_ways != "nowhere":
        raise UsageError("its caches are mlx-lm's own, in which no picture sees all of itself")
    around = [tokens_of([token]) for token in settings.around]
    if settings.model_type == "gemma3":
        space = tokenizer.encode(PARAGRAPH)
        around = [np.concatenate([space, around[0]]), np.concatenate([around[1], space])]
    return MlxSight(settings, around, partial(encoded, load_tower(path, settings), blueprint))


def load_tower(path: Path, settings: PictureSettings) -> Module:
    """Load a tower from among a model's weights, as mlx-lm loads these."""
    make = MAKERS[settings.model_type]

    def classes(config: Mapping[str, Any]) -> tuple[Callable[[object], Module], type[Settings]]:  # noqa: ARG001
        return lambda _: make(settings), Settings

    try:
        tower: Module = load_model(path, get_model_classes=classes)[0]
    except Exception as error:  # of whatever kind: its numbers are a stranger's
        if short_of_memory(error):
            raise OutOfMemory(f"there was no memory for the tower of {path.name}") from error
        fault = f"the tower of {path.name} cannot be loaded: {error}"
        raise ModelFileError(one_line(fault)) from error
    return tower


def encoded(tower: Any, blueprint: Blueprint, pixels: mx.array) -> mx.array:
    """Turn pixels into embeddings, as they are before the model scales what it embeds."""
    inner = body(blueprint.model)
    width, kind = inner.norm.weight.shape[-1], inner.norm.weight.dtype
    # Gemma 4 has its factor in the kind of its numbers, Gemma 3 in brain floats.
    factor = mx.array(width**0.5, kind if "embed_scale" in vars(inner) else mx.bfloat16)
    states: mx.array = tower(pixels).astype(mx.float32)
    return (states / factor.astype(mx.float32)).astype(kind)


def tower_bytes(path: Path) -> int:
    """Count the bytes of a tower: its weights, what it computes in, embeddings that are kept."""
    on_cpu = mx.default_device() == mx.cpu
    settings = picture_settings(path)
    sizes = shards.read(path).sizes
    weights = sum(size for name, size in sizes.items() if is_of_pictures(name))
    return weights + KEPT_BYTES + computing(settings, on_cpu=on_cpu)


def computing(settings: PictureSettings, *, on_cpu: bool) -> int:
    """Count the bytes that the largest picture is computed in, scores among them."""
    tower, patches = settings.tower, settings.patches
    states: int = patches * (STATES * tower["hidden_size"] + 2 * tower["intermediate_size"]) * FLOAT
    head = tower.get("head_dim") or tower["hidden_size"] // tower["num_attention_heads"]
    plain = head in FUSED_WIDTHS and not on_cpu
    scores: int = 0 if plain else 2 * tower["num_attention_heads"] * patches**2 * SCORE_BYTES
    return states + scores
