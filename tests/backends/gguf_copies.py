"""GGUF files with something changed, folders made of them, and what llama.cpp says in 32 bits."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import llama_cpp.llama_cpp as lib
import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter

from localspec_llamacpp.bindings.weights import HOST, ModelWeights
from mlx_conversion.convert import OutputFormat, convert

SCRIPT = Path(__file__).parents[2] / "scripts" / "gguf_to_mlx"
COMMAND = (sys.executable, "-m", "mlx_conversion")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SCRIPT.parent)}
EXACT = OutputFormat(dtype="float32")
FREQUENCIES = "rope_freqs.weight"
ARCHITECTURE = "general.architecture"
FILE_TYPES = {"f32": 0, "q4_0": 2, "q8_0": 7, "bf16": 32}  # llama.cpp's numbers
F32 = 0  # of keys and values
CELLS, BATCH = 512, 256


class Stop(Exception):
    """Ends a conversion where the weights would be written."""


def stop(partial):
    raise Stop


def made(source, folder, wishes=EXACT, check=lambda partial: None, progress=lambda *counts: None):
    convert(source, folder, wishes, check, progress)
    return folder


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def biases(*names):
    widths = {"attn_q": 64, "attn_k": 32, "attn_v": 32, "attn_output": 64, "ffn_down": 64}
    return {
        f"blk.{layer}.{name}.bias": numbers(widths.get(name, 96), seed=layer)
        for layer in range(3)
        for name in names
    }


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
    [found] = [tensor.data for tensor in GGUFReader(source).tensors if tensor.name == name]
    return np.array(found)


def stored_as(kind: str, source: Path, target: Path) -> Path:
    """Let llama.cpp write the weights of a GGUF in another type."""
    params = lib.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize = FILE_TYPES[kind], True
    assert lib.llama_model_quantize(str(source).encode(), str(target).encode(), params) == 0
    return target


class ExactEngine:
    """llama.cpp with keys and values in 32 bits and without flash attention, which rounds them."""

    def __init__(self, path: Path) -> None:
        self.weights = ModelWeights(path, HOST)
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = CELLS, BATCH, BATCH
        params.n_threads = params.n_threads_batch = 1
        params.type_k, params.type_v, params.flash_attn_type = F32, F32, 0
        self.context = lib.llama_init_from_model(self.weights.pointer, params)

    def feed(self, tokens: Sequence[int]) -> np.ndarray:
        """Append tokens; the logits after the last one."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        assert lib.llama_decode(self.context, lib.llama_batch_get_one(array, len(tokens))) == 0
        pointer = lib.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(pointer, (self.weights.vocabulary,)).copy()

    def close(self) -> None:
        lib.llama_free(self.context)
        self.weights.close()


def greedy(path: Path, prompt: Sequence[int], length: int) -> tuple[list[int], np.ndarray]:
    """The tokens llama.cpp continues a prompt by, and the logits before and after each."""
    with closing(ExactEngine(path)) as engine:
        rows, said = [engine.feed(prompt)], []
        for _ in range(length):
            said.append(int(rows[-1].argmax()))
            rows.append(engine.feed(said[-1:]))
    return said, np.array(rows)


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
