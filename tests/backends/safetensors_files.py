"""Safetensors files for tests, broken where that is wished for, and folders of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from localspec.base.errors import ModelFileError
from localspec_mlx.folder import shards

Entry = dict[str, object]


def tensor(start: int, end: int, shape: list[int], dtype: str = "F32") -> Entry:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def packed(header: object, data: int = 0, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


GOOD = {"a": tensor(0, 8, [2]), "b": tensor(8, 40, [2, 4])}


def refusal(folder: Path, read: Callable[[Path], object] = shards.read) -> str:
    """The one line by which a folder is refused."""
    with pytest.raises(ModelFileError) as caught:
        read(folder)
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 500
    return line


def put(folder: Path, **files: object) -> Path:
    """Write files; `_` in a name stands for a dot, and what is no bytes is JSON."""
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name.replace("_", ".")).write_bytes(raw)
    return folder
