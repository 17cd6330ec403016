"""Calibrations that were kept: one small file for each pair, machine and way of loading."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import platformdirs

from localspec.calibration import Calibration

ENDS = 1 << 20  # bytes from either end of a file by which it is recognised


def folder() -> Path:
    return platformdirs.user_cache_path("localspec", appauthor=False) / "calibrations"


def key(models: Iterable[Path], circumstances: Sequence[str]) -> str:
    """Another one for other weights, or anything else that changes what they take."""
    digest = hashlib.sha256("\n".join(circumstances).encode())
    for model in models:
        for file in sorted(model.rglob("*")) if model.is_dir() else [model]:
            if file.is_file():
                _add(digest, file)
    return digest.hexdigest()[:32]


def _add(digest: hashlib._Hash, file: Path) -> None:
    with file.open("rb") as data:
        size = data.seek(0, os.SEEK_END)
        digest.update(f"{file.name} {size}\n".encode())
        for start in {0, max(size - ENDS, 0)}:
            data.seek(start)
            digest.update(data.read(ENDS))


def find(name: str) -> Calibration | None:
    """What was kept under a key; None if there is nothing, or nothing that makes sense."""
    try:
        kept = json.loads((folder() / f"{name}.json").read_text(encoding="utf-8"))
        return Calibration(
            _points(kept["target"]),
            {by: _points(points) for by, points in kept["drafting"].items()},
            {by: _seconds(value, least=0.0) for by, value in kept["reading"].items()},
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def keep(name: str, calibration: Calibration) -> None:
    """Write it so that nobody ever reads half of it; a full disk is no reason to fail."""
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder())
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(calibration), file)
            Path(part).replace(folder() / f"{name}.json")
        finally:
            Path(part).unlink(missing_ok=True)


def _points(kept: Mapping[str, object]) -> dict[int, float]:
    points = {int(size): _seconds(value, least=1e-7) for size, value in kept.items()}
    if len(points) < 2 or min(points) < 1:
        raise ValueError("a curve needs two points")
    return points


def _seconds(value: object, least: float) -> float:
    if not isinstance(value, float | int) or not least <= value < 3600:
        raise ValueError(f"{value!r} seconds")
    return float(value)
