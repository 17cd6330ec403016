"""Write a model of some of another's layers, to draft for it; weights are copied as they are."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from localspec_llamacpp.ggml import type_numbers
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.metadata import (
    ARRAY,
    FORMATS,
    STRING,
    FileRange,
    Header,
    Tensor,
    Value,
)

BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
COUNT, DENSE, HEADS = "block_count", "leading_dense_block_count", "nextn_predict_layers"
PIECE = 16 << 20  # bytes that are copied at once


def thin(path: Path, layers: Sequence[int], out: Path) -> None:
    """Write a GGUF file with these layers of another, by their numbers from 0, in their order."""
    header = read(path)
    if header.number("split.count") > 1:
        header.refuse("is one of several parts: join them first, with llama-gguf-split --merge")
    unfinished = out.with_name(f"{out.name}.part")
    try:
        with path.open("rb") as source, unfinished.open("wb") as target:
            write(header, sorted(set(layers)), source, target)
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def write(header: Header, layers: Sequence[int], source: BinaryIO, target: BinaryIO) -> None:
    values = changed(header, layers)
    tensors = list(kept(header.tensors, layers))
    kinds = type_numbers()
    alignment = header.number("general.alignment", 32)
    target.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)))
    for key, value in values.items():
        target.write(text(key.encode()) + struct.pack("<I", value.kind))
        target.write(packed(value, layers, source))
    end = 0
    for name, tensor in tensors:
        axes = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        target.write(text(name.encode()) + axes + struct.pack("<IQ", kinds[tensor.kind], end))
        end += -(-tensor.size // alignment) * alignment
    for _, tensor in tensors:
        target.write(b"\0" * (-target.tell() % alignment))
        copy(source, header.weights_start + tensor.offset, tensor.size, target)
    target.write(b"\0" * (-target.tell() % alignment))


def changed(header: Header, layers: Sequence[int]) -> Mapping[str, Value]:
    """Describe a model of some layers; arrays with a number per layer are marked by their kind."""
    family = header.text("general.architecture")
    numbers = {f"{family}.{COUNT}": len(layers), f"{family}.{HEADS}": 0}
    dense = header.number(f"{family}.{DENSE}")
    numbers[f"{family}.{DENSE}"] = sum(at < dense for at in layers)
    total = header.number(f"{family}.{COUNT}")
    values = {}
    for key, value in header.values.items():
        place = value.place
        own = key.startswith(f"{family}.") and not key.endswith("sections")
        if key in numbers and place is None:
            value = replace(value, number=numbers[key])
        elif key == "general.name" and value.text:
            value = Value(STRING, text=f"{value.text}, {len(layers)} of {total} layers")
        elif own and value.kind == ARRAY and place and place.kind in FORMATS:
            value = replace(value, number=float(place.count == total))
        values[key] = value
    return values


def packed(value: Value, layers: Sequence[int], source: BinaryIO) -> bytes:
    """Write a value as the file has it, or that part of an array which is of these layers."""
    place = value.place
    if value.kind == STRING and value.text is not None and place is None:
        return text(value.text.encode())
    if place is None:
        return struct.pack(FORMATS[value.kind], value.number)
    raw = read_range(source, place)
    if value.kind == STRING:
        return text(raw)
    count = place.count
    if value.number:
        size = struct.calcsize(FORMATS[place.kind])
        raw = b"".join(raw[at * size : (at + 1) * size] for at in layers)
        count = len(layers)
    return struct.pack("<IQ", place.kind, count) + raw


def read_range(source: BinaryIO, place: FileRange) -> bytes:
    source.seek(place.start)
    return source.read(place.end - place.start)


def text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def kept(tensors: Sequence[Tensor], layers: Sequence[int]) -> Iterator[tuple[str, Tensor]]:
    """Name the tensors that stay, those of layers by their new numbers."""
    numbers = {old: new for new, old in enumerate(layers)}
    for tensor in tensors:
        match = BLOCK.fullmatch(tensor.name)
        if not match:
            yield tensor.name, tensor
        elif int(match[1]) in numbers:
            yield f"blk.{numbers[int(match[1])]}.{match[2]}", tensor


def copy(source: BinaryIO, start: int, size: int, target: BinaryIO) -> None:
    source.seek(start)
    while size:
        piece = source.read(min(size, PIECE))
        target.write(piece)
        size -= len(piece)
