"""The tools that models are made with, kept outside the repository."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path

import platformdirs

from benchmarks.comparison import llama_server

PACKAGE = "llama-cpp-python"
PACKAGES = ("torch==2.13.0", "transformers>=5.23", "sentencepiece>=0.2", "protobuf>=5")


def cache() -> Path:
    return platformdirs.user_cache_path("localspec", appauthor=False) / "architectures"


def sources() -> Path:
    """Get llama.cpp's sources, among which its converter is."""
    folder = cache() / f"sources-{version(PACKAGE)}"
    if not folder.exists():
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache()) as place:
            run = llama_server.logged(cache() / "sources.log")
            llama_server.sources(Path(place), run).rename(folder)
    return folder


def torch_python(folder: Path | None = None) -> Path:
    """Get the Python of an environment with torch and transformers, made where it is missing."""
    folder = folder or cache() / "torch"
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    stamp = folder / "ready"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == repr(PACKAGES):
        return python
    print(f"Installing {', '.join(PACKAGES)} in {folder}.", file=sys.stderr, flush=True)
    venv.create(folder, clear=True, with_pip=True, symlinks=sys.platform != "win32")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    stamp.write_text(repr(PACKAGES), encoding="utf-8")
    return python
