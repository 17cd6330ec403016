"""A published EAGLE-3 head to begin a training with: a folder as SpecForge writes it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from localspec.apps.training.support import CHECKPOINT, INSTALL, layers_read
from localspec.base.errors import UsageError
from localspec.base.system import kept_json
from localspec.base.system.fingerprint import fingerprint
from localspec.interfaces.footprint import Footprint
from localspec.interfaces.trained_head import (
    EPSILON,
    PUBLISHED_NAMES,
    ROPE_BASE,
    HeadShape,
    TrainedHead,
)

if TYPE_CHECKING:
    from torch import Tensor

RECORD = "begin.json"
NOT_TRAINED = (
    "norm_before_residual",
    "norm_before_fc",
    "attention_bias",
    "mlp_bias",
    "rope_scaling",
)


def choose_beginning(head: Path, target: Footprint, folder: Path) -> None:
    """Let the training in a folder begin with a head; refuse one that does not fit, or too late."""
    read_head(head, target)
    record = {"head": str(head.absolute()), "key": fingerprint([head], [])}
    if (folder / CHECKPOINT).exists() and kept_json.load(folder / RECORD, dict) != record:
        raise UsageError(
            f"{folder} has a training that began with something else: delete that folder, or omit "
            "--from to go on with it"
        )
    folder.mkdir(parents=True, exist_ok=True)
    kept_json.keep(folder / RECORD, record)


def chosen_beginning(folder: Path, target: Footprint) -> TrainedHead | None:
    """Read the head that the training in a folder is to begin with; None if that is open."""
    head = kept_json.load(folder / RECORD, lambda record: Path(record["head"]))
    return read_head(head, target) if head else None


def read_head(head: Path, target: Footprint) -> TrainedHead:
    """Read a head; a UsageError says why it cannot be gone on with for this target."""
    try:
        config = kept_json.read(head / "config.json")
        tensors = read_tensors(head)
        return fitted(config, tensors, target)
    except (OSError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{head} cannot be trained on: {why}") from error


def read_tensors(head: Path) -> Mapping[str, Tensor]:
    """Read all tensors of a folder, by their names without `model.` and `.weight`."""
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise UsageError(f"--from needs {error.name}: {INSTALL}") from error
    tensors: dict[str, Tensor] = {}
    for file in sorted(head.glob("*.safetensors")):
        try:
            tensors |= load_file(file)
        except SafetensorError as error:
            raise ValueError(f"{file.name}: {error}") from error
    if not tensors:
        raise ValueError("there is no *.safetensors in it")
    return {
        name.removeprefix("model.").removesuffix(".weight").replace("layers.0.", "midlayer."): one
        for name, one in tensors.items()
    }


def fitted(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], target: Footprint
) -> TrainedHead:
    """Make a head of what was read; raise a ValueError where it is none for this target."""
    shape, layers = shape_of(config), layers_read(target.layers)
    require_equal("numbers a state", shape.width, target.embedding)
    require_equal("tokens in its vocabulary", int(config["vocab_size"]), target.vocabulary)
    require_equal("queries left over by its keys", shape.heads % shape.kv_heads, 0)
    require_equal("layers", int(config.get("num_hidden_layers", 1)), 1)
    if fixed := [name for name in NOT_TRAINED if config.get(name)]:
        raise ValueError(f"it has {fixed[0]}, which training knows nothing of")
    read = layers_of(config) or layers
    if read != layers:
        raise ValueError(f"it reads layers {read} of its model; training reads {layers} of this")
    arrays = {}
    for name, size in shape.sizes.items():
        tensor = tensors[PUBLISHED_NAMES[name]]
        if tuple(tensor.shape) != size:
            raise ValueError(f"{PUBLISHED_NAMES[name]} is {tuple(tensor.shape)}, and not {size}")
        arrays[name] = tensor.float().numpy()
    tokens = np.arange(shape.drafted, dtype=np.int64)
    if "d2t" in tensors:
        tokens = tokens + tensors["d2t"].numpy()
    places = [-1, *tokens.tolist(), target.vocabulary]
    if len(tokens) != shape.drafted or any(one >= two for one, two in pairwise(places)):
        raise ValueError("d2t is no rising list of its model's tokens")
    return TrainedHead(shape, layers, tokens, arrays, target.vocabulary, target.context)


def shape_of(config: Mapping[str, Any]) -> HeadShape:
    rope = {"rope_theta": ROPE_BASE, **config, **(config.get("rope_parameters") or {})}
    if rope.get("rope_type", "default") != "default":
        raise ValueError(f"it has rope_type {rope['rope_type']}, which training knows nothing of")
    width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
    return HeadShape(
        width,
        heads,
        int(config.get("num_key_value_heads") or heads),
        int(config.get("head_dim") or width // heads),
        int(config["intermediate_size"]),
        int(config.get("draft_vocab_size") or config["vocab_size"]),
        float(config.get("rms_norm_eps", EPSILON)),
        float(rope["rope_theta"]),
    )


def layers_of(config: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the layers whose inputs a head reads; SGLang numbers the outputs before them."""
    nested = (config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids") or ()
    inputs = config.get("eagle_aux_hidden_state_layer_ids") or ()
    return tuple(int(at) + 1 for at in nested) or tuple(map(int, inputs))


def require_equal(noun: str, own: int, targets: int) -> None:
    if own != targets:
        raise ValueError(f"it has {own:,} {noun}, and must have {targets:,}")
