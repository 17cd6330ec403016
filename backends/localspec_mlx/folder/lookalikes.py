"""Paths mistaken for MLX models: what they are, and what to do with them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import NoReturn

from localspec_mlx.folder.config import NAME
from localspec_mlx.folder.files import refuse_folder

AGAIN = "download the folder again"

MOST_NAMES = 10_000  # of a folder's files that are looked at
SAFE = "choose a version with model*.safetensors"
PYTORCH = f"a PyTorch model, which MLX does not read: {SAFE}"
# In one line, for any shell; it runs nothing that the file may hold.
CONVERSION = (
    'python -c "import torch, safetensors.torch as s; s.save_file(dict((n, t.clone()) for n, t in '
    "torch.load('pytorch_model.bin', weights_only=True).items()), 'model.safetensors')\""
)
ADAPTER = "a LoRA adapter: give the folder of its model, and this one as --adapter"
PIPELINE = "a pipeline that draws or speaks, or a part of one: choose a language model"
# The first that is found says what the folder is.
HOLDINGS = {
    "adapter_config.json": ADAPTER,
    "adapter*.safetensors": ADAPTER,
    "model_index.json": PIPELINE,
    "diffusion_*": PIPELINE,
    "*.gguf": "a GGUF model: give the path of that file itself",
    "snapshots": "a download cache: give the folder in it that has config.json",
    "consolidated*": f"a model as Mistral lays it out: {SAFE}",
    "weights*.npz": f"a model of an early mlx-lm: {SAFE}",
    "pytorch_model.bin": f"{PYTORCH}, or convert it there (torch 2.6 or later): {CONVERSION}",
    "*.bin": PYTORCH,
    "*.pth": PYTORCH,
    "*.pt": PYTORCH,
    "*.h5": f"a Keras model, which MLX does not read: {SAFE}",
    "*.msgpack": f"a Flax model, which MLX does not read: {SAFE}",
    "*.onnx": f"an ONNX model, which MLX does not read: {SAFE}",
    "*.safetensors": f"a model whose files mlx-lm does not look for: {SAFE}",
}


def check_folder(path: Path) -> None:
    """Refuse a path that is no folder, or no model's folder."""
    try:
        if not path.exists():
            refuse_folder(path, "does not exist: check the path")
        if not path.is_dir():
            refuse_folder(path, "is a file: give the folder that holds the model")
        if not (path / NAME).exists():
            refuse_without(path, NAME)
    except OSError as error:
        refuse_folder(path, f"cannot be read: {error.strerror or error}")


def refuse_without(folder: Path, lacking: str) -> NoReturn:
    """Refuse a folder that lacks a model's files, and say why."""
    try:
        names = sorted(entry.name for entry in islice(folder.iterdir(), MOST_NAMES))
    except OSError as error:
        refuse_folder(folder, f"cannot be read: {error.strerror or error}")
    for pattern, kind in HOLDINGS.items():
        sign = next((name for name in names if fnmatchcase(name, pattern)), None)
        if sign:
            refuse_folder(folder, f"has no {lacking}; with {sign}, it is {kind}")
    if not names:
        refuse_folder(folder, "is empty: give the folder that holds the model")
    refuse_folder(folder, f"has no {lacking}: {AGAIN}, or give another")


def not_safetensors(start: bytes, size: int) -> str:
    """Describe a file by its first bytes."""
    lowered = start.lstrip().lower()
    if not start.strip(b"\0"):
        return f"empty or unfinished: {len(start)} zero bytes are the first of {size:,}: {AGAIN}"
    if start.startswith(b"version https://git-lfs"):
        return "a git-lfs pointer, not the weights: run `git lfs pull` where it came from"
    if start.startswith(b"GGUF"):
        return "GGUF, not safetensors: rename it to end in .gguf and give its path"
    if start.startswith(b"PK\x03\x04"):
        return f"a zip archive (PyTorch weights are), not safetensors: {SAFE}"
    if lowered.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page, not safetensors: log in where it came from and download it again"
    return f"not safetensors: it starts with {start[:9]!r}: {AGAIN}"
