"""Small GGUF files for the tests, written field by field."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from localspec.base.errors import ModelFileError
from localspec.interfaces.backend import Footprint
from localspec_llamacpp.backend import inspect

LETTERS = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "bool": "?", "u64": "Q"}
KINDS = {"u8": 0, "u16": 2, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "str": 8, "u64": 10}
ARRAY = 9


@dataclass(frozen=True)
class Typed:
    """A value whose GGUF type is not the one that its Python type suggests."""

    kind: str
    value: object


Plain = bool | int | float | str | bytes | list[int] | list[bool] | list[str] | Typed
Tensor = tuple[str, tuple[int, ...], int, int]  # name, shape, type, bytes


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def kind_of(value: object) -> str:
    kinds = {bool: "bool", int: "u32", float: "f32", str: "str", bytes: "str"}
    return kinds[type(value)]


def encoded(value: Plain) -> bytes:
    kind, inner = (value.kind, value.value) if isinstance(value, Typed) else ("", value)
    if isinstance(inner, list):
        kind = kind or (kind_of(inner[0]) if inner else "u32")
        start = struct.pack("<IIQ", ARRAY, KINDS[kind], len(inner))
        if kind == "str":
            return start + b"".join(map(text, inner))
        return start + struct.pack(f"<{len(inner)}{LETTERS[kind]}", *inner)
    kind = kind or kind_of(inner)
    if kind == "str":
        return struct.pack("<I", 8) + text(inner)
    return struct.pack("<I" + LETTERS[kind], KINDS[kind], inner)


def described(tensors: Sequence[Tensor], alignment: int = 32) -> tuple[bytes, int]:
    """Tensor records that lie one after another, and the bytes they take."""
    records, end = b"", 0
    for name, shape, kind, size in tensors:
        end = -(-end // alignment) * alignment
        records += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        records += struct.pack("<IQ", kind, end)
        end += size
    return records, end


def gguf(pairs: Mapping[str, Plain], tensors: Sequence[Tensor] = (), version: int = 3) -> bytes:
    start = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    records, size = described(tensors)
    start += b"".join(text(key) + encoded(value) for key, value in pairs.items()) + records
    return start + bytes(-len(start) % 32 + size) if tensors else start


TOKENS = ["<s>", *"abcdefghijklmno"]
VOCABULARY: dict[str, Plain] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": list(TOKENS),
    "tokenizer.ggml.token_type": Typed("i32", [1] * 16),
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.eos_token_id": 0,
    "tokenizer.chat_template": "{{ messages }}",
}
NUMBERS: dict[str, Plain] = {
    "context_length": 2048,
    "embedding_length": 64,
    "block_count": 2,
    "feed_forward_length": 128,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
TENSORS: list[Tensor] = [
    ("token_embd.weight", (64, 16), 1, 2048),
    ("output_norm.weight", (64,), 0, 256),
    ("blk.0.attn_q.weight", (64, 64), 8, 4352),
]
Numbers = Mapping[str, Plain | None]


def pairs(architecture: str = "llama", changes: Numbers | None = None) -> dict[str, Plain]:
    """The metadata of a small model; a change to None drops a key, `/` marks a full one."""
    found: dict[str, Plain] = {"general.architecture": architecture, "general.name": "Small"}
    found |= {f"{architecture}.{key}": value for key, value in NUMBERS.items()} | VOCABULARY
    for key, value in (changes or {}).items():
        name = key.removeprefix("/") if key.startswith("/") else f"{architecture}.{key}"
        if value is None:
            found.pop(name)
        else:
            found[name] = value
    return found


def model(changes: Numbers | None = None, tensors: Sequence[Tensor] = TENSORS) -> bytes:
    return gguf(pairs(changes=changes), tensors)


def looked_into(tmp_path: Path, content: bytes) -> Footprint:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return inspect(path)


def refusal(tmp_path: Path, content: bytes) -> str:
    """The one line by which a file is refused."""
    with pytest.raises(ModelFileError) as caught:
        looked_into(tmp_path, content)
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 500
    assert line.startswith("model.gguf ")
    return line
