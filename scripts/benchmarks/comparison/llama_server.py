"""llama.cpp's own programs, built from the sources of the installed llama-cpp-python."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import filelock

from localspec_build import folders, records
from localspec_build.choice import NAMES, RPC, choose
from localspec_build.failure import SetupFailed
from localspec_build.machine import look
from localspec_build.target import PACKAGE
from localspec_build.wheels import options
from localspec_llamacpp import converting

VARIABLE = "LLAMA_SERVER"  # names a binary that is there already
PROGRAMS = ("llama-server", "llama-bench")
SUFFIX = ".exe" if sys.platform == "win32" else ""
LINES = 20  # of a build's log, to show why it failed
CMAKE = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",  # so that the programs can leave the build folder
    "-DLLAMA_OPENSSL=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",  # which would be downloaded
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
)

Run = Callable[[Sequence[str]], None]


def find(option: Path | None, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the server to compare with: that of the option, the environment's, or a built one."""
    named = option or (Path(environment[VARIABLE]) if environment.get(VARIABLE) else None)
    if named is None:
        try:
            kind, more = as_installed(Path(sys.prefix))
            return build(cache_folder() / "-".join([version(PACKAGE), *kind]), more=more)
        except SetupFailed as error:
            raise SystemExit(str(error)) from error
    if not named.is_file():
        raise SystemExit(f"there is no llama-server at {named}")
    return named.resolve()


def bench_beside(server: Path) -> Path:
    """Return the llama-bench of the same build."""
    program = server.with_name(f"llama-bench{SUFFIX}")
    if not program.is_file():
        raise SystemExit(f"there is no llama-bench beside {server}: build it there as well")
    return program


def cache_folder() -> Path:
    return folders.cache() / "llama-server"


def as_installed(prefix: Path) -> tuple[Sequence[str], Sequence[str]]:
    """Return the kind of the installed library, unless it is what CMake makes, and its options."""
    made = records.installed(prefix)
    if made is None or (made.kind == "cpu" and set(made.cmake) <= {RPC}):
        return (), shlex.split(os.environ.get("CMAKE_ARGS", ""))  # which the package heeded too
    choice = choose(look(), made.kind) if made.kind in NAMES else None
    return (made.kind,), options(choice, sys.executable) if choice else made.cmake


def build(
    folder: Path,
    run: Run | None = None,
    more: Sequence[str] = (),
    sources: Callable[[], Path] = lambda: converting.sources(converting.installed()),
) -> Path:
    """Build the programs into a folder, unless they are there; other builds wait for the first."""
    server = folder / f"llama-server{SUFFIX}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder.with_name(f"{folder.name}.lock")):
        if not server.is_file():
            print(f"building llama-server into {folder}: some minutes", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(dir=folder.parent) as place:
                work = run or logged(folder.with_name(f"{folder.name}.log"))
                made = compile_programs(sources(), Path(place), work, more)
                shutil.rmtree(folder, ignore_errors=True)
                made.rename(folder)
    return server


def compile_programs(sources: Path, place: Path, run: Run, more: Sequence[str]) -> Path:
    """Compile; return the folder that holds nothing but the programs."""
    made, build_folder = place / "programs", str(place / "build")
    run(["cmake", "-S", str(sources), "-B", build_folder, *CMAKE, *more])
    targets = ("--target", *PROGRAMS)
    jobs = ("--parallel", os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", str(os.cpu_count() or 1)))
    run(["cmake", "--build", build_folder, "--config", "Release", *jobs, *targets])
    made.mkdir()
    for name in PROGRAMS:
        program = next(Path(build_folder).glob(f"bin/**/{name}{SUFFIX}"))
        shutil.copy2(program, made / program.name)
    return made


def logged(log: Path) -> Run:
    """Run commands into one log; the first that fails ends everything with the log's last lines."""
    log.unlink(missing_ok=True)

    def run(command: Sequence[str]) -> None:
        with log.open("ab") as out:
            try:
                code = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode
            except OSError as error:
                raise SystemExit(f"{command[0]} cannot be run: {error}") from error
        if code:
            log_lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:]
            raise SystemExit("\n".join([*log_lines, f"{shlex.join(command)} failed: see {log}"]))

    return run


def version_line(server: Path) -> str:
    """Ask the program for its version."""
    done = subprocess.run([str(server), "--version"], capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines()
    return next((line for line in lines if line.startswith("version")), "version unknown")
