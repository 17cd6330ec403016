"""Wheels of llama-cpp-python: made or fetched, kept, and installed."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import sys
import tarfile
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

from localspec_build import cuda_toolkit, effort, folders, kernels, makers, pip
from localspec_build.choice import GENERAL, Choice, Published
from localspec_build.failure import SetupFailed
from localspec_build.makers import PATIENCE_SECONDS, Reach
from localspec_build.pip import say
from localspec_build.records import BUILT, Installed, note
from localspec_build.target import PACKAGE, Target
from localspec_build.trial import trial

# pip keeps a wheel for all options of CMake alike, so its cache is left out.
SOURCES = ("--no-binary", PACKAGE, "--no-cache-dir")
# LocalSpec loads llama, ggml and mtmd, for pictures.
LEAN_FILE = Path(__file__).with_name("lean.cmake")
LEAN = f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={LEAN_FILE.as_posix()}"


def store() -> Path:
    return folders.cache() / PACKAGE


def log() -> Path:
    return store() / "pip.log"


def install(
    choice: Choice, target: Target, from_source: bool = False, quick: bool = False
) -> Installed:
    """Install a build by the first way that succeeds; `SetupFailed` where none does.

    Where it has to be `quick` and none was built here with the products of this LocalSpec, one
    with others goes first, and then the makers' general one for processors.
    """
    for published in () if from_source else choice.published:
        if made := install_published(choice, published, target):
            return made
    cmake = options(choice, target.python)
    was_kept = not from_source and bool(kept([place(choice.kind, cmake)]))
    hurried = (quick or choice.unbuildable) and not (from_source or was_kept)
    if hurried and (made := install_earlier(choice, target, cmake)):
        return made
    if hurried and choice.kind == "cpu" and (made := install_published(choice, GENERAL, target)):
        return made
    install_built(choice, target, from_source)
    tried = trial(target)
    if was_kept and not tried.names:  # of another machine with this home, or of older libraries
        say(f"The build that was kept does not work any more: {tried.fault}")
        install_built(choice, target, True)
        tried = trial(target)
    if not tried.names:
        fault = f"llama.cpp was built for {choice.kind} and does not work: {tried.fault}"
        raise SetupFailed(fault)
    products = kernels.current()
    made = Installed(choice.kind, choice.because, BUILT, cmake=cmake, products=products)
    note(target.prefix, made)
    return made


def install_earlier(choice: Choice, target: Target, cmake: tuple[str, ...]) -> Installed | None:
    """Install a build with the same options and other products or none, if one works here."""
    for folder in earlier(choice, cmake):
        if install_kept(folder, target) and trial(target).names:
            made = Installed(choice.kind, choice.because, BUILT, cmake=cmake)
            note(target.prefix, made)
            return made
    return None


def install_published(choice: Choice, published: Published, target: Target) -> Installed | None:
    """Install a wheel of the makers, if there is one and it works here."""
    folder = store() / published.tag
    if not install_kept(folder, target) and not (
        fetch_wheel(folder, published, target) and install_kept(folder, target)
    ):
        return None
    libraries = ""
    if published.runtime:
        cuda_toolkit.install(published.runtime, target.python, log())
        libraries = str(cuda_toolkit.folder_of(published.runtime))
    if not (tried := trial(target, libraries)).names:
        say(f"The makers' build {published.tag} does not work here: {tried.fault}")
        return None
    made = Installed(choice.kind, choice.because, published.tag, libraries)
    note(target.prefix, made)
    return made


def fetch_wheel(folder: Path, published: Published, target: Target) -> bool:
    """Fetch a wheel of the makers; they are not asked again soon where they are out of reach."""
    reach = Reach(store())
    if reach.lost():
        return False
    say(f"Looking for a build by llama-cpp-python's makers: {published.tag}.")
    index = makers.index(published.tag)
    if make_wheel(folder, target, target.requirement, *index, patience_seconds=PATIENCE_SECONDS):
        return True
    if makers.unreachable(pip.content(log())):
        say("Their page cannot be reached from here, so llama.cpp is built.")
        reach.note()
    return False


def install_built(choice: Choice, target: Target, anew: bool, *where: str) -> None:
    """Install a wheel that was built here with these options before, or build it now.

    `where` tells pip of another place than the environment.
    """
    cmake = options(choice, target.python)
    home = place(choice.kind, cmake)
    if choice.unbuildable and (anew or not kept([home])):
        raise SetupFailed(choice.unbuildable)
    for old in kept([home]) if anew else ():
        old.unlink()
    if install_kept(home, target, *where):
        return
    more = effort.environment(choice.kind)
    level = {**os.environ, **more}.get(effort.LEVEL, "")
    time = effort.duration_text(choice.kind, level, effort.cores())
    say(f"Building llama.cpp for {choice.kind}, once: {time}.")
    say("Fetching its sources, 80 MB, and then the tools of the build.")
    if not build_wheel(home, target, cmake, more) or not install_kept(home, target, *where):
        raise SetupFailed(pip.explain(log()))


def place(kind: str, cmake: tuple[str, ...]) -> Path:
    """Return where a build is kept, by its options and by the products in it."""
    name = f"{kind}-{digest(*cmake, LEAN_FILE.name)}"
    return store() / "-".join(filter(None, (name, kernels.current())))


def earlier(choice: Choice, cmake: tuple[str, ...]) -> list[Path]:
    """List where builds with other products lie, the newest first, and with all of llama.cpp."""
    name, whole = (f"{choice.kind}-{digest(*cmake, *more)}" for more in ((LEAN_FILE.name,), ()))
    homes = {*store().glob(name), *store().glob(f"{name}-*")} - {place(choice.kind, cmake)}
    wheels = sorted(kept(list(homes)), key=lambda wheel: wheel.stat().st_mtime, reverse=True)
    return [*(wheel.parent for wheel in wheels), store() / whole]


def kept(folders: Sequence[Path]) -> list[Path]:
    return [wheel for folder in folders for wheel in folder.glob("*.whl")]


def build_wheel(
    folder: Path, target: Target, cmake: tuple[str, ...], more: Mapping[str, str]
) -> bool:
    """Build a wheel; one that was stopped half-way goes on there."""
    build, sources = folder / "build", folder / "sources"
    home = unpack_sources(sources, target)
    if home is None:
        Reach(store()).forget()
        return False
    where = ("-v", "--config-settings", f"build-dir={build}", "--no-cache-dir")
    lean = {**more, "CMAKE_ARGS": shlex.join((LEAN, *cmake))}
    made = make_wheel(folder, target, str(home), *where, environment=lean)
    if not made and (fault := kernels.fault(pip.content(log()))):
        say(f"LocalSpec's products do not compile here, so llama.cpp goes without: {fault}")
        bare = {**more, "CMAKE_ARGS": shlex.join((LEAN, *cmake, kernels.WITHOUT))}
        made = make_wheel(folder, target, str(home), *where, environment=bare)
    if not made:
        return False
    for done in (build, sources):
        shutil.rmtree(done, ignore_errors=True)
    return True


def unpack_sources(folder: Path, target: Target) -> Path | None:
    """Fetch and unpack the sources of the version that is wanted; None where that fails."""
    fetch = ("download", "--no-deps", *SOURCES, "--dest", str(folder), target.requirement)
    if not pip.run(pip.command(target.python), *fetch, log=log()):
        return None
    newest = max(folder.glob("*.tar.gz"), key=lambda archive_path: archive_path.stat().st_mtime)
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


def make_wheel(
    folder: Path,
    target: Target,
    requirement: str,
    *more: str,
    environment: Mapping[str, str] | None = None,
    patience_seconds: float = inf,
) -> bool:
    """Make or fetch a wheel into a folder."""
    arguments = ("wheel", "--no-deps", "--wheel-dir", str(folder), *more, requirement)
    return pip.run(
        pip.command(target.python),
        *arguments,
        log=log(),
        environment=environment,
        patience_seconds=patience_seconds,
    )


def install_kept(folder: Path, target: Target, *where: str) -> bool:
    """Install the wheel that a folder keeps, if it is of a version that is wanted."""
    if not any(folder.glob("*.whl")):
        return False
    kept = ("--no-deps", "--no-index", "--force-reinstall", "--find-links", str(folder), *where)
    own = pip.command(target.python)
    return pip.run(own, "install", *kept, target.requirement, log=log())


def digest(*texts: str) -> str:
    return hashlib.sha256(
        "\n".join((sys.platform, platform.machine(), *texts)).encode()
    ).hexdigest()[:12]
