"""What changes what an engine holds of a text."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from localspec.backends import backend
from localspec.fingerprint import fingerprint, versions
from localspec.opening import Opened

PARTED = re.compile(r"(.+-)(\d{5})-of-(\d{5})\.gguf")
SAMPLES, SAMPLE = 64, 1 << 16  # bytes of a file of weights that its identity depends on


def identity(found: Opened) -> str:
    """Of what a target holds of a text: its weights, the engine, and how it was loaded."""
    place = found.places.target
    way = replace(found.plan.options, threads=None, batch=512, tentative=8, verbose=False)
    build = backend(place.engine).build()
    weights = [sampled(file) for file in weight_files(place.path)]
    return fingerprint([place.path], [place.engine, repr(way), repr(build), *versions(), *weights])


def weight_files(path: Path) -> list[Path]:
    """All files of a model: of a folder, or of a GGUF in parts."""
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file())
    part = PARTED.fullmatch(path.name)
    if part is None:
        return [path]
    numbers = range(1, int(part[3]) + 1)
    return [path.with_name(f"{part[1]}{each:05}-of-{part[3]}.gguf") for each in numbers]


def sampled(file: Path) -> str:
    """A sum of parts from all over a file, and when it was written last."""
    info = file.stat()
    made = hashlib.sha256(f"{info.st_size} {info.st_mtime_ns}".encode())
    with file.open("rb") as data:
        for at in range(SAMPLES):
            data.seek(info.st_size * at // SAMPLES)
            made.update(data.read(SAMPLE))
    return made.hexdigest()
