"""The header of a LoRA adapter, checked before llama.cpp reads the file."""

from __future__ import annotations

import math
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.interfaces.backend import Footprint
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.metadata import FLOAT32, Header

KIND = "adapter"  # of a GGUF, as its header says
ALPHA = "adapter.lora.alpha"
INVOCATION = "adapter.alora.invocation_tokens"
MATRIX = ".lora_b"  # ends the name of the second factor of each change


def require_fit(footprint: Footprint, path: Path) -> None:
    """Refuse a file that is no LoRA adapter, or one that is not for this model."""
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder, and adapters of GGUF models are files: "
            f"`localspec convert-adapter {path}` writes one"
        )
    header = read(path)
    check(header)
    architecture = header.text("general.architecture")
    if architecture != footprint.architecture:
        raise UsageError(
            f"{path.name} is for {architecture}, and {footprint.path.name} is "
            f"{footprint.architecture}: give an adapter that was trained for this model"
        )
    # llama.cpp compares the shapes of matrices, but not how many experts have one.
    for tensor in header.tensors:
        if (experts := math.prod(tensor.shape[2:])) not in (1, footprint.experts):
            raise UsageError(
                f"{path.name} is for {experts:,} experts, and {footprint.path.name} has "
                f"{footprint.experts:,}: give an adapter that was trained for this model"
            )


def describe(path: Path) -> dict[str, str]:
    """Describe an adapter by its header, a fact a line; nothing where a file is none."""
    header = read(path)
    if header.text("general.type") != KIND:
        return {}
    check(header)
    seconds = [tensor for tensor in header.tensors if tensor.name.endswith(MATRIX)]
    alpha = header.values.get(ALPHA)
    weight_bytes = sum(tensor.size for tensor in header.tensors)
    facts = {
        "path": str(path),
        "name": header.text("general.name") or path.stem,
        "kind": "LoRA adapter: give it with --adapter",
        "architecture": header.text("general.architecture") or "unknown",
        "base model": header.text("general.base_model.0.name") or "",
        "rank": ", ".join(map(str, sorted({tensor.shape[0] for tensor in seconds}))),
        "alpha": f"{alpha.number:g}" if alpha else "",
        "changes": f"{len(seconds):,} matrices",
        "size": f"{header.file_bytes:,} bytes, {weight_bytes:,} of weights",
    }
    return {name: value for name, value in facts.items() if value}


def check(header: Header) -> None:
    """Refuse a file that is no adapter, or one of another kind."""
    if header.text("general.type") != KIND:
        header.refuse("is no LoRA adapter: give one as llama.cpp's converter writes them")
    if (kind := header.text("adapter.type")) != "lora":
        header.refuse(f"is an adapter of kind {kind}; only lora is supported")
    if INVOCATION in header.values:
        header.refuse("acts only after certain tokens (aLoRA), which is not supported")
    alpha = header.values.get(ALPHA)
    if alpha and (alpha.kind != FLOAT32 or not math.isfinite(alpha.number)):
        header.refuse(f"is broken: {ALPHA} is no finite number")
    if not any(tensor.name.endswith(MATRIX) for tensor in header.tensors):
        header.refuse("changes no weights: it holds no tensors of a LoRA")
