"""The trained models and heads of this folder, as files that an engine reads."""

from __future__ import annotations

import lzma
from pathlib import Path


def unpacked(name: str, folder: Path) -> Path:
    path = folder / f"{name}.gguf"
    packed = Path(__file__).with_name(f"{path.name}.xz")
    path.write_bytes(lzma.decompress(packed.read_bytes()))
    return path
