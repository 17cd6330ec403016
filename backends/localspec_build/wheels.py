"""Wheels of llama-cpp-python: made or fetched, kept, and installed."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

from localspec_build import cuda_toolkit, folders, pip
from localspec_build.choice import Choice, Published
from localspec_build.failure import SetupFailed
from localspec_build.machine import free_memory
from localspec_build.pip import say
from localspec_build.records import Installed, note

PACKAGE = "llama-cpp-python"
MAKERS = "https://abetlen.github.io/llama-cpp-python/whl"
BUILT = "built here"
BRIEFLY = ("--retries", "0", "--timeout", "10")  # no network is no error
# pip keeps a wheel for all options of CMake alike, so its cache is left out.
SOURCES = ("--no-binary", PACKAGE, "--no-cache-dir")
WAIT = {
    "cpu": "About five minutes on two cores",
    "cuda": "About five minutes on sixteen cores, half an hour to an hour on two",
    "hip": "About ten minutes on sixteen cores, an hour or two on two",
    "vulkan": "About ten minutes on two cores",
}
HUNGRY = {"cuda": 2**30, "hip": 2**30}  # bytes that a compiler takes: 0.7 GB of nvcc were seen
# Loads the library of an environment, after the files that it is given, and tells its backends.
TRIAL = """
import ctypes, importlib.util, os, pathlib, sys
for each in sys.argv[1:]:
    ctypes.CDLL(each, mode=ctypes.RTLD_GLOBAL)
folder = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
if sys.platform == "win32":
    os.environ["PATH"] = f"{folder};{os.environ['PATH']}"
def load(name):
    files = [folder / each for each in (f"lib{name}.so", f"lib{name}.dylib", f"{name}.dll")]
    return ctypes.CDLL(str(next(file for file in files if file.exists())))
load("llama")
ggml = load("ggml")
ggml.ggml_backend_reg_get.restype = ctypes.c_void_p
ggml.ggml_backend_reg_name.restype = ctypes.c_char_p
ggml.ggml_backend_reg_name.argtypes = [ctypes.c_void_p]
for at in range(ggml.ggml_backend_reg_count()):
    print(ggml.ggml_backend_reg_name(ggml.ggml_backend_reg_get(at)).decode())
"""


PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"  # of a checkout


class Target(NamedTuple):
    """An environment to install into."""

    python: str
    prefix: Path
    requirement: str  # as llama-cpp-python>=0.3.36

    @classmethod
    def of(cls, python: str, prefix: Path) -> Target:
        """Read in this checkout, or of what is installed, which llama.cpp LocalSpec wants."""
        if PROJECT.is_file():
            names = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
        else:
            names = requires("localspec") or []
        return cls(python, prefix, next(name for name in names if name.startswith(PACKAGE)))


def store() -> Path:
    return folders.cache() / PACKAGE


def log() -> Path:
    return store() / "pip.log"


def install(choice: Choice, target: Target, from_source: bool = False) -> Installed:
    """Install a build by the first way that succeeds; `SetupFailed` where none does."""
    for each in () if from_source else choice.published:
        if made := fetched(choice, each, target):
            return made
    kept = not from_source and any(place(choice, options(choice, target.python)).glob("*.whl"))
    cmake = built(choice, target, from_source)
    tried = trial(target)
    if kept and not tried.names:  # of another machine with this home, or of older libraries
        say(f"The build that was kept cannot be loaded any more: {tried.fault}")
        cmake = built(choice, target, True)
        tried = trial(target)
    if not tried.names:
        fault = f"llama.cpp was built for {choice.kind} and cannot be loaded: {tried.fault}"
        raise SetupFailed(fault)
    made = Installed(choice.kind, choice.because, BUILT, cmake=cmake)
    note(target.prefix, made)
    return made


def fetched(choice: Choice, published: Published, target: Target) -> Installed | None:
    """Install a wheel of the makers, if there is one and it can be loaded here."""
    folder = store() / published.tag
    if not put(folder, target):
        say(f"Looking for a build by llama-cpp-python's makers: {published.tag}.")
        index = ("--only-binary", ":all:", "--index-url", f"{MAKERS}/{published.tag}")
        found = wheel(folder, target, target.requirement, *index, *BRIEFLY)
        if not found or not put(folder, target):
            return None
    libraries = ""
    if published.runtime:
        cuda_toolkit.install(published.runtime, target.python, log())
        libraries = str(cuda_toolkit.folder_of(published.runtime))
    if not (tried := trial(target, libraries)).names:
        say(f"The makers' build {published.tag} cannot be loaded here: {tried.fault}")
        return None
    made = Installed(choice.kind, choice.because, published.tag, libraries)
    note(target.prefix, made)
    return made


def built(choice: Choice, target: Target, anew: bool, *where: str) -> tuple[str, ...]:
    """Install a wheel that was built here with these options before, or build it now.

    `where` tells pip of another place than the environment.
    """
    cmake = options(choice, target.python)
    folder = place(choice, cmake)
    if choice.unbuildable and (anew or not any(folder.glob("*.whl"))):
        raise SetupFailed(choice.unbuildable)
    for old in folder.glob("*.whl") if anew else ():
        old.unlink()
    if not put(folder, target, *where):
        say(f"Building llama.cpp for {choice.kind}. {WAIT.get(choice.kind, WAIT['cpu'])}, once.")
        if not compiled(folder, target, cmake, environment(choice.kind)) or not put(
            folder, target, *where
        ):
            raise SetupFailed(pip.explain(log()))
    return cmake


def place(choice: Choice, cmake: tuple[str, ...]) -> Path:
    return store() / f"{choice.kind}-{digest(*cmake)}"


def jobs(kind: str, free: int, cores: int) -> int:
    """Return how many compilers the memory holds at once; 0 where it holds one for each core."""
    number = free // HUNGRY[kind] if kind in HUNGRY else cores
    return max(1, number) if number < cores else 0


def environment(kind: str, given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what a build for a kind wants of its environment, and the user did not set."""
    wanted: dict[str, str] = {}
    if number := jobs(kind, free_memory(), os.cpu_count() or 1):
        wanted["CMAKE_BUILD_PARALLEL_LEVEL"] = str(number)
    if cxx := shutil.which(given.get("CXX", "")):
        wanted["CUDAHOSTCXX"] = cxx  # nvcc takes the system's else
    return {name: value for name, value in wanted.items() if name not in given}


def compiled(folder: Path, target: Target, cmake: tuple[str, ...], more: Mapping[str, str]) -> bool:
    """Build a wheel; one that was stopped half-way goes on there."""
    build, sources = folder / "build", folder / "sources"
    home = unpacked(sources, target)
    if home is None:
        return False
    where = ("--config-settings", f"build-dir={build}", "--no-cache-dir")
    more = {**more, "CMAKE_ARGS": shlex.join(cmake)}
    if not wheel(folder, target, str(home), *where, environment=more):
        return False
    for done in (build, sources):
        shutil.rmtree(done, ignore_errors=True)
    return True


def unpacked(folder: Path, target: Target) -> Path | None:
    """Fetch and unpack the sources of the version that is wanted; None where that fails."""
    fetch = ("download", "--no-deps", *SOURCES, "--dest", str(folder), target.requirement)
    if not pip.run(pip.command(target.python), *fetch, log=log()):
        return None
    newest = max(folder.glob("*.tar.gz"), key=lambda each: each.stat().st_mtime)
    home = folder / newest.name.removesuffix(".tar.gz")
    if not home.exists():
        aside = folder / "unpacking"
        with tarfile.open(newest) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # from 3.11.4 on
            archive.extractall(aside)
        (aside / home.name).rename(home)
    return home


def options(choice: Choice, python: str) -> tuple[str, ...]:
    """Return the options of a build for CMake, with the compiler of the package index at hand."""
    if not choice.toolkit:
        return choice.cmake
    home = cuda_toolkit.install(choice.toolkit, python, log())
    compiler = (f"-DCMAKE_CUDA_COMPILER={home}/bin/nvcc", f"-DCUDAToolkit_ROOT={home}")
    return (*choice.cmake, *compiler, cuda_toolkit.linked(home / "lib"))


def wheel(
    folder: Path,
    target: Target,
    what: str,
    *more: str,
    environment: dict[str, str] | None = None,
) -> bool:
    """Make or fetch a wheel into a folder."""
    arguments = ("wheel", "--no-deps", "--wheel-dir", str(folder), *more, what)
    own = pip.command(target.python)
    return pip.run(own, *arguments, log=log(), environment=environment)


def put(folder: Path, target: Target, *where: str) -> bool:
    """Install the wheel that a folder keeps, if it is of a version that is wanted."""
    if not any(folder.glob("*.whl")):
        return False
    kept = ("--no-deps", "--no-index", "--force-reinstall", "--find-links", str(folder), *where)
    own = pip.command(target.python)
    return pip.run(own, "install", *kept, target.requirement, log=log())


class Tried(NamedTuple):
    """The backends of a library that could be loaded, or the reason why it could not."""

    names: tuple[str, ...]
    fault: str = ""


def trial(target: Target, libraries: str = "") -> Tried:
    """Load the library of an environment, in a process of its own."""
    before = map(str, cuda_toolkit.libraries(Path(libraries))) if libraries else ()
    command = [target.python, "-c", TRIAL, *before]
    done = subprocess.run(command, capture_output=True, check=False, cwd=target.prefix)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode:
        return Tried((), said[-1] if said else f"exit code {done.returncode}")
    return Tried(tuple(done.stdout.decode().split()))


def digest(*texts: str) -> str:
    return hashlib.sha256(
        "\n".join((sys.platform, platform.machine(), *texts)).encode()
    ).hexdigest()[:12]
