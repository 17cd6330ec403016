"""Checksums of files, and a key that changes with weights, versions and circumstances."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from localspec.base.model_files import files_of

END_BYTES = 1 << 20  # bytes from either end of a file by which it is recognised


def digest(path: Path, large: bool) -> str:
    """Compute the sha256 of a large file, or git's sum of a small one."""
    hasher = hashlib.sha256() if large else hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as data:
        return hashlib.file_digest(data, lambda: hasher).hexdigest()


def fingerprint(models: Iterable[Path], circumstances: Sequence[str]) -> str:
    """Compute a key of weights and circumstances."""
    digest = hashlib.sha256("\n".join(circumstances).encode())
    for model in models:
        for file in files_of(model):
            _add(digest, file)
    return digest.hexdigest()[:32]


def installed_versions(packages: Iterable[str]) -> list[str]:
    """List the installed ones of these packages, with their versions."""
    return [f"{package} {version(package)}" for package in packages if _has(package)]


def changed_versions(before: Iterable[str], now: Iterable[str]) -> str:
    """Name the software that has another version now, as "engine 0.4 (was 0.3)"."""
    old = dict(line.rpartition(" ")[::2] for line in before)
    pairs = (line.rpartition(" ")[::2] for line in now)
    return ", ".join(
        f"{name} {version} (was {old.get(name, 'absent')})"
        for name, version in pairs
        if old.get(name) != version
    )


def _add(digest: hashlib._Hash, file: Path) -> None:
    with suppress(OSError), file.open("rb") as data:  # the engine says why it cannot be read
        size = data.seek(0, os.SEEK_END)
        digest.update(os.fsencode(f"{file.name} {size}\n"))
        for start in {0, max(size - END_BYTES, 0)}:
            data.seek(start)
            digest.update(data.read(END_BYTES))


def _has(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False
