"""The conversion of a GGUF to a folder that mlx-lm loads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np
from gguf.constants import GGMLQuantizationType

from localspec.errors import ModelFileError, UsageError
from mlx_conversion.folder import new_folder
from mlx_conversion.gguf_file import GgufFile, read
from mlx_conversion.shape import config, read_shape
from mlx_conversion.tokenizer import write_json, write_tokenizer
from mlx_conversion.weights import Array, Weight, parts, plan

DTYPES = {"float16": mx.float16, "bfloat16": mx.bfloat16, "float32": mx.float32}
BITS, GROUP_SIZES = (4, 8), (32, 64, 128)

Check = Callable[[Path], None]
Progress = Callable[[int, int], None]  # tensors done, and of how many


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The format in which weights are stored."""

    dtype: str | None = None  # of what is not quantised; None: 16 bits as in the file
    bits: int | None = None  # of a quantised number; None: nothing is quantised
    group_size: int = 64  # quantised numbers that share a scale


def convert(
    source: Path, folder: Path, wanted: OutputFormat, check: Check, progress: Progress
) -> None:
    """Convert a model, or leave nothing behind.

    `check` gets the unfinished folder once its tokenizer is written, before the weights are: what
    it raises ends the conversion.
    """
    check_format(wanted)
    file = read(source)
    shape = read_shape(file)
    weights = plan(file, shape)
    check_groups(file, weights, wanted)
    content = config(shape)
    if wanted.bits:
        content["quantization"] = {"group_size": wanted.group_size, "bits": wanted.bits}
    with new_folder(folder) as partial:
        write_tokenizer(file, partial)
        check(partial)
        save(partial / "model.safetensors", arrays(file, weights, wanted, progress))
        write_json(partial / "config.json", content)  # the last: without it there is no model


def check_format(wanted: OutputFormat) -> None:
    if wanted.dtype not in (None, *DTYPES):
        raise UsageError(f"dtype {wanted.dtype!r} is unknown; known: {', '.join(DTYPES)}")
    if wanted.bits not in (None, *BITS):
        raise UsageError(f"bits is {wanted.bits}; it must be {' or '.join(map(str, BITS))}")
    if wanted.group_size not in GROUP_SIZES:
        sizes = ", ".join(map(str, GROUP_SIZES))
        raise UsageError(f"group size is {wanted.group_size}; it must be one of {sizes}")


def check_groups(file: GgufFile, weights: list[Weight], wanted: OutputFormat) -> None:
    for weight in weights if wanted.bits else ():
        columns = weight.tensor.shape[-1]
        if len(weight.tensor.shape) > 1 and columns % wanted.group_size:
            file.refuse(
                f"has a tensor {weight.tensor.name} of {columns:,} columns, which groups of "
                f"{wanted.group_size} do not divide: choose another --group-size"
            )


def arrays(
    file: GgufFile, weights: list[Weight], wanted: OutputFormat, progress: Progress
) -> dict[str, mx.array]:
    """Convert all weights; only a part of one at a time is held in 32 bits."""
    kinds = {weight.tensor.kind for weight in weights}
    natural = "bfloat16" if GGMLQuantizationType.BF16 in kinds else "float16"
    found: dict[str, mx.array] = {}
    for done, weight in enumerate(weights, 1):
        found |= stored(file, weight, wanted.dtype or natural, wanted)
        progress(done, len(weights))
    return found


def stored(file: GgufFile, weight: Weight, dtype: str, wanted: OutputFormat) -> dict[str, mx.array]:
    pieces: dict[str, list[mx.array]] = {}
    for values in parts(file, weight):
        check_range(file, weight, values, dtype)
        for name, array in packed(weight.name, mx.array(values, DTYPES[dtype]), wanted).items():
            mx.eval(array)
            pieces.setdefault(name, []).append(array)
    return {name: mx.concatenate(p) if len(p) > 1 else p[0] for name, p in pieces.items()}


def check_range(file: GgufFile, weight: Weight, values: Array, dtype: str) -> None:
    largest, most = max(values.max(), -values.min()), mx.finfo(DTYPES[dtype]).max
    if not np.isfinite(largest):
        file.refuse(f"has values in {weight.tensor.name} that are not finite: it is broken")
    if largest > most:
        file.refuse(
            f"has values of up to {largest:.3g} in {weight.tensor.name}, and {dtype} ends at "
            f"{most:.3g}: choose --dtype bfloat16"
        )


def packed(name: str, values: mx.array, wanted: OutputFormat) -> dict[str, mx.array]:
    if not wanted.bits or values.ndim < 2:
        return {name: values}
    quantised = mx.quantize(values, group_size=wanted.group_size, bits=wanted.bits)
    stem = name.removesuffix("weight")
    return dict(zip((name, f"{stem}scales", f"{stem}biases"), quantised, strict=True))


def save(path: Path, weights: dict[str, mx.array]) -> None:
    try:
        mx.save_safetensors(str(path), weights, metadata={"format": "mlx"})
    except RuntimeError as error:  # all that MLX says of a full disk
        raise ModelFileError(f"{path} cannot be written: is the disk full? {error}") from None
