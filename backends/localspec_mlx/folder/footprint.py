"""Describe an MLX model folder and what it will need, without reading its weights."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.interfaces.backend import Footprint
from localspec_mlx.folder import config as configuration
from localspec_mlx.folder import drafters, shards
from localspec_mlx.folder.config import HEADS, LAYERS, TOKENS, WIDTHS, Config
from localspec_mlx.folder.embedder import pooling
from localspec_mlx.folder.files import read, refuse
from localspec_mlx.folder.lookalikes import AGAIN, check_folder
from localspec_mlx.folder.pictures import is_beside_text
from localspec_mlx.folder.shards import Shards
from localspec_mlx.folder.thinning import model_of_first_layers
from localspec_mlx.folder.vocabulary import chat_template, kind

if TYPE_CHECKING:
    from localspec_mlx.folder.skeleton import Skeleton

# Where a configuration is silent: state and windows set no limit, whatever a definition takes;
# of the models that keep every token, only early ones are, which were trained for this many.
BOUNDLESS, SILENT_CONTEXT = 1 << 20, 2048
MASKS = ("pard_token", "ptd_token_id")  # as AMD's PARD and vLLM name it
SAMPLING = {  # the names of what is advised, by those of `Sampling`
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical": "typical_p",
    "repetition": "repetition_penalty",
}
COMMIT = re.compile(r"[0-9a-f]{40}")
CACHED = re.compile(r"models--(?:.+--)?(?P<name>.+)")


def inspect(path: Path) -> Footprint:
    """Read a model's configuration and headers; refuse what mlx-lm would not load.

    What files lack is found before mlx-lm is imported, which takes a second.
    """
    folder = Path(os.path.abspath(path))
    check_folder(path if path.name else folder)  # errors name it as it was typed
    config = configuration.read(folder)
    how = pooling(config)
    held = shards.read(folder, pattern=drafters.files(config))
    if drafters.drafter(config):
        return drafters.described(path, config, held)
    check_layers(config, held)
    from localspec_mlx.folder.skeleton import lay_out

    return replace(described(path, folder, config, held, lay_out(config)), pooling=how)


def described(path: Path, folder: Path, config: Config, held: Shards, model: Skeleton) -> Footprint:
    """Describe a model by its configuration and its layout."""
    settings = model.settings
    heads = config.number(HEADS, settings) if model.kept.heads else 0
    towers = sum(size for name, size in held.sizes.items() if is_beside_text(name))
    inside, recurrent = drafters.inside(config, held), model.kept.state_bytes > 0
    is_head = model_of_first_layers(config) is not None and not recurrent
    return Footprint(
        path=path,
        architecture=config.model_type,
        name=name(folder, config),
        quantisation=model.quantisation,
        file_bytes=held.file_bytes,
        weight_bytes=held.weight_bytes - inside.bytes - towers,
        drafting_layers=inside.layers,
        layers=model.layers,
        heads=heads or model.kept.heads,
        kv_heads=model.kept.heads,
        embedding=config.number(WIDTHS, settings),
        vocabulary=model.kept.vocabulary or config.number(TOKENS, settings),
        context=context(config, model),
        kv_bytes_per_token=model.kept.token_bytes,
        window=model.kept.window,
        window_bytes_per_token=model.kept.window_bytes,
        state_bytes=model.kept.state_bytes,
        experts=config.number(configuration.EXPERTS, settings),
        active_experts=config.number(configuration.ACTIVE_EXPERTS, settings),
        attention_layers=model.kept.attention_layers,
        head_width=model.kept.head_width,
        window_layers=model.kept.window_layers,
        recurrent_layers=model.kept.recurrent_layers,
        tokenizer=kind(folder),
        chat_template=chat_template(folder),
        mask_token=mask(config),
        drafter=drafters.LAYERSKIP if is_head else "",
        sampling=advised(folder),
    )


def advised(folder: Path) -> dict[str, float]:
    """Read the sampling that the makers advise."""
    values = read(folder / "generation_config.json")
    return {
        name: value
        for name, key in SAMPLING.items()
        if isinstance(value := values.get(key), int | float) and not isinstance(value, bool)
    }


def mask(config: Config) -> int | None:
    """Read the token by which a draft model is asked for several tokens at once."""
    tokens = [config.values.get(name) for name in MASKS]
    return next((token for token in tokens if type(token) is int and token >= 0), None)


def context(config: Config, model: Skeleton) -> int:
    """Find the number of tokens it was trained for, as far as that is known."""
    if not model.kept.token_bytes:
        return config.number(configuration.CONTEXTS) or BOUNDLESS
    return config.number(configuration.CONTEXTS, model.settings) or SILENT_CONTEXT


def check_layers(config: Config, held: Shards) -> None:
    """Require tensors in each layer, which bounds what is laid out."""
    layers, tensors = config.number(LAYERS), len(held.sizes)
    if layers > tensors:
        fault = f"promises {layers:,} layers, but the folder holds {tensors:,} tensors"
        refuse(config.path, f"{fault}: {AGAIN}")


def name(folder: Path, config: Config) -> str:
    """Name the folder; in a download cache, where folders are named by commit, the model."""
    title = folder.name
    if COMMIT.fullmatch(title):
        cached = CACHED.fullmatch(folder.parent.parent.name)
        origin = config.values.get("_name_or_path")
        if cached:
            title = cached["name"]
        elif isinstance(origin, str):
            title = origin.rstrip("/").rpartition("/")[2] or title
    return " ".join(title.split())
