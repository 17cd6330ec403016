"""CUDA's compiler and libraries from the package index, in a folder of their own.

The packages are laid out for programs that look for each library by name. CMake wants a toolkit:
the links that are missing are added.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from pathlib import Path

from localspec_build import folders, pip
from localspec_build.failure import SetupFailed

READY = "ready"


def folder_of(requirement: str) -> Path:
    return folders.data() / "cuda" / re.sub(r"\W+", "-", requirement).strip("-")


def install(requirement: str, python: str, log: Path) -> Path:
    """Install packages of CUDA, unless they are there; return the root of the toolkit."""
    folder = folder_of(requirement)
    if not (folder / READY).exists():
        pip.say(f"Fetching {requirement} from the package index: 500 to 650 MB.")
        own = pip.command(python)[:3]  # not for an environment, but for a folder
        where = ("--upgrade", "--target", str(folder))
        folder.parent.mkdir(parents=True, exist_ok=True)
        # pip unpacks 1.7 GB first where temporary files go: often a small disk, or memory.
        with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as near:
            more = {} if "TMPDIR" in os.environ else {"TMPDIR": near}
            if not pip.run(own, "install", *where, requirement, log=log, environment=more):
                raise SetupFailed(pip.explain(log))
        complete(root(folder))
        (folder / READY).touch()
    return root(folder)


def root(folder: Path) -> Path:
    """Find the toolkit among the packages: CUDA 13 has one folder, CUDA 12 one for each package."""
    return next((path.parent.parent for path in folder.glob("nvidia/*/bin/nvcc")), folder)


def linked(folder: str | Path) -> str:
    """State for CMake where the libraries are found at run time.

    CMake names no folder of nvcc's own to the dynamic linker, which does not know it either.
    """
    return f"-DCMAKE_SHARED_LINKER_FLAGS_INIT=-Wl,-rpath,{shlex.quote(str(folder))}"


def libraries(folder: Path) -> list[Path]:
    """List the libraries that a build of llama.cpp links with, in the order of their needs."""
    names = ("libcudart.so.*", "libnvrtc.so.*", "libcublasLt.so.*", "libcublas.so.*")
    return [path for name in names for path in sorted(folder.glob(f"nvidia/*/lib/{name}"))[:1]]


def complete(home: Path) -> None:
    """Add the names by which a linker and CMake look: lib64, and libraries without a version."""
    for library in home.glob("lib/lib*.so.*"):
        plain = library.with_name(library.name.partition(".so")[0] + ".so")
        if not plain.exists():
            plain.symlink_to(library.name)
    if not (home / "lib64").exists():
        (home / "lib64").symlink_to("lib")
