"""GGUF files with something changed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import llama_cpp.llama_cpp as lib
import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

ARCHITECTURE = "general.architecture"
FILE_TYPES = {"f32": 0, "q4_0": 2, "q8_0": 7, "bf16": 32}  # llama.cpp's numbers


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def copied(source: Path, target: Path, keys: Mapping = {}, tensors: Mapping = {}) -> Path:
    """Copy a GGUF with some keys and tensors replaced or added or, where they are None, left out.

    Another architecture renames the keys of the old one.
    """
    reader = GGUFReader(source)
    old = reader.fields[ARCHITECTURE].contents()
    new = keys.get(ARCHITECTURE, old)
    writer = GGUFWriter(target, new)
    for name, field in reader.fields.items():
        name = name.replace(f"{old}.", f"{new}.", 1)
        if not name.startswith("GGUF.") and name not in {ARCHITECTURE, *keys}:
            inner = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
    for name, value in keys.items():
        if value is not None and name != ARCHITECTURE:
            kind = GGUFValueType.get_type(value)
            kind = GGUFValueType.UINT32 if kind == GGUFValueType.INT32 else kind
            writer.add_key_value(name, value, kind)
    for tensor in reader.tensors:
        if tensor.name not in tensors:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    for name, values in tensors.items():
        if values is not None:
            writer.add_tensor(name, np.ascontiguousarray(values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def tensor(source: Path, name: str) -> np.ndarray:
    [values] = [tensor.data for tensor in GGUFReader(source).tensors if tensor.name == name]
    return np.array(values)


def stored_as(kind: str, source: Path, target: Path) -> Path:
    """Let llama.cpp write the weights of a GGUF in another type."""
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize = FILE_TYPES[kind], True
    assert lib.llama_model_quantize(str(source).encode(), str(target).encode(), params) == 0
    return target
