"""Write a folder with some of a model's layers, to draft for it; weights are copied as they are."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from localspec_mlx.folder import config as configuration
from localspec_mlx.folder import shards
from localspec_mlx.folder.config import LAYERS, NAME, Config
from localspec_mlx.folder.files import INDEX

LAYER = re.compile(r"(?P<before>.*\blayers\.)(?P<number>\d+)(?P<after>\..+)")
WRITTEN = (NAME, INDEX)  # anew, or not at all
MADE_OF = "localspec_made_of"  # a setting: the folder whose layers these are, and which of them


def thin(path: Path, layers: Sequence[int], out: Path) -> None:
    """Write a folder with these layers of another, by their numbers from 0, in their order."""
    numbers = {old: new for new, old in enumerate(sorted(set(layers)))}
    config = configuration.read(path)
    weights: dict[str, mx.array] = {}
    about: Mapping[str, str] = {}
    for file in shards.read(path).paths:
        loaded: Any = mx.load(str(file), return_metadata=True)
        arrays, about = loaded
        weights |= renumbered(arrays, numbers)
    out.mkdir(parents=True)
    values = thinned(dict(config.values), config.number(LAYERS), numbers)
    values[MADE_OF] = [str(path.resolve()), *numbers]
    (out / NAME).write_text(json.dumps(values, indent=2), encoding="utf-8")
    mx.save_safetensors(str(out / "model.safetensors"), weights, metadata=dict(about))
    for file in path.iterdir():
        if file.is_file() and file.suffix != ".safetensors" and file.name not in WRITTEN:
            shutil.copyfile(file, out / file.name)


def model_of_first_layers(config: Config) -> Path | None:
    """Return the folder of the model whose first layers these are; None: they are others."""
    match config.values.get(MADE_OF):
        case [str(folder), *layers] if layers == list(range(len(layers))):
            return Path(folder)
    return None


def renumbered(named: Mapping[str, Any], numbers: Mapping[int, int]) -> dict[str, Any]:
    """Keep what is of these layers, or of none, and number the layers anew."""
    kept = {}
    for name, value in named.items():
        match = LAYER.fullmatch(name)
        if not match:
            kept[name] = value
        elif (old := int(match["number"])) in numbers:
            kept[f"{match['before']}{numbers[old]}{match['after']}"] = value
    return kept


def thinned(values: dict[str, Any], total: int, numbers: Mapping[int, int]) -> dict[str, Any]:
    """Describe a model of fewer layers: their number, and lists with an entry for each."""
    described = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = renumbered(thinned(value, total, numbers), numbers)
        elif isinstance(value, list) and len(value) == total:
            value = [value[at] for at in sorted(numbers)]
        elif name in LAYERS:
            value = len(numbers)
        described[name] = value
    return described
