"""The tools that models are made and tried with, built once outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import platformdirs

PACKAGE = "llama-cpp-python"
PACKAGES = ("torch==2.13.0", "transformers>=5.23", "sentencepiece>=0.2", "protobuf>=5")
PROGRAMS = ("llama-server", "llama-quantize")
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_WEBUI=OFF",
)


@dataclass(frozen=True, slots=True)
class Tools:
    """llama.cpp's sources and programs in a folder, as `ready` fills it."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "src" / "vendor" / "llama.cpp"

    def program(self, name: str) -> Path:
        suffix = ".exe" if sys.platform == "win32" else ""
        return self.folder / "build" / "bin" / f"{name}{suffix}"


def cache() -> Path:
    return platformdirs.user_cache_path("localspec", appauthor=False) / "architectures"


def ready(folder: Path | None = None) -> Tools:
    """Get llama.cpp's programs, of the very sources that the installed package is built from."""
    tools = Tools(folder or cache() / f"{PACKAGE}-{version(PACKAGE)}")
    if not tools.source.exists():
        unpack(tools.folder)
    if not all(tools.program(name).exists() for name in PROGRAMS):
        build(tools)
    return tools


def unpack(folder: Path) -> None:
    download, aside = folder / "sdist", folder / "src.part"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    source_package = ["--no-binary", PACKAGE, f"{PACKAGE}=={version(PACKAGE)}"]
    subprocess.run([*pip, *source_package, "--dest", str(download)], check=True)
    [archive] = download.glob("*.tar.gz")
    shutil.rmtree(aside, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(aside, filter="data")
    [inside] = aside.iterdir()
    inside.rename(folder / "src")
    aside.rmdir()


def build(tools: Tools) -> None:
    """Compile the programs, which takes some minutes."""
    print(f"Building {', '.join(PROGRAMS)} in {tools.folder}.", file=sys.stderr, flush=True)
    place = tools.folder / "build"
    subprocess.run(["cmake", "-B", place, "-S", tools.source, *OPTIONS], check=True)
    jobs = ["--config", "Release", "-j", str(os.cpu_count() or 1)]
    subprocess.run(["cmake", "--build", place, *jobs, "--target", *PROGRAMS], check=True)


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
