"""Sums of files, and a key that changes with weights, versions, or anything else that is given."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CHUNK = 1 << 20
ENDS = 1 << 20  # bytes from either end of a file by which it is recognised
PARTED = re.compile(r"(.+-)(\d{5})-of-(\d{5})\.gguf")
PACKAGES = ("localspec", "llama-cpp-python", "mlx", "mlx-lm", "numpy")


def digest(path: Path, large: bool) -> str:
    """sha256, or git's sum of a small file."""
    made = hashlib.sha256() if large else hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as data:
        while chunk := data.read(CHUNK):
            made.update(chunk)
    return made.hexdigest()


def fingerprint(models: Iterable[Path], circumstances: Sequence[str]) -> str:
    """Another one for other weights, or other circumstances."""
    digest = hashlib.sha256("\n".join(circumstances).encode())
    for model in models:
        for file in sorted(model.rglob("*")) if model.is_dir() else [model]:
            if file.is_file():
                _add(digest, file)
    return digest.hexdigest()[:32]


def weight_files(path: Path) -> list[Path]:
    """All files of a model: of a folder, or of a GGUF in parts."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    part = PARTED.fullmatch(path.name)
    if part is None:
        return [path]
    numbers = range(1, int(part[3]) + 1)
    parts = [path.with_name(f"{part[1]}{each:05}-of-{part[3]}.gguf") for each in numbers]
    return [each for each in parts if each.exists()]


def versions() -> list[str]:
    """Of the packages that decide what an engine does."""
    return [f"{package} {version(package)}" for package in PACKAGES if _has(package)]


def _add(digest: hashlib._Hash, file: Path) -> None:
    with file.open("rb") as data:
        size = data.seek(0, os.SEEK_END)
        digest.update(f"{file.name} {size}\n".encode())
        for start in {0, max(size - ENDS, 0)}:
            data.seek(start)
            digest.update(data.read(ENDS))


def _has(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
