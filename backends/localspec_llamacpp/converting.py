"""Convert published drafting heads to GGUF, by llama.cpp's own converter.

The converter is in the source package of llama-cpp-python, but not among what that installs. It
needs torch, and so runs in an environment of its own, set up when the first head is converted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from localspec.backend_spec import PublishedHead
from localspec.errors import BackendError, ModelFileError
from localspec_build import folders, pip, wheels
from localspec_build.failure import SetupFailed
from localspec_build.pip import say
from localspec_build.target import PACKAGE, Target
from localspec_llamacpp.head_kinds import drafter
from localspec_llamacpp.headers.header import read

CONVERTER = "vendor/llama.cpp/convert_hf_to_gguf.py"
REQUIREMENTS = "vendor/llama.cpp/requirements/requirements-convert_hf_to_gguf.txt"


def convert(head: PublishedHead, out: Path, target: Target | None = None) -> None:
    """Write a head as a GGUF file; `BackendError` if the converter cannot."""
    requirement = f"{PACKAGE}=={version(PACKAGE)}"  # so that this llama.cpp reads what is written
    target = target or Target(sys.executable, Path(sys.prefix), requirement)
    try:
        sources, python = set_up(target, head.python)
    except (SetupFailed, OSError) as error:
        raise BackendError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=out.absolute().parent) as place:
        made = Path(place) / out.name
        way = "" if head.target else "; a head in a folder of its own needs --target FOLDER"
        run([python, str(sources / CONVERTER), *options(head, made)], way)
        if not drafter(read(made)):
            raise ModelFileError(f"{head.folder} is a whole model: it has no drafting head alone")
        made.replace(out)


def options(head: PublishedHead, out: Path) -> Sequence[str]:
    """Write the converter's options; a head without a target is among a model's own weights."""
    of = ("--target-model-dir", str(head.target)) if head.target else ("--mtp",)
    return (str(head.folder), *of, "--outfile", str(out), "--outtype", head.kind)


def set_up(target: Target, python: str) -> tuple[Path, str]:
    """Return the converter's sources and a Python for it; get both where they are not there."""
    home = store() / target.requirement.removeprefix(f"{PACKAGE}==")
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "lock"):
        sources = next(home.glob("*/" + CONVERTER), None)
        if sources is None:
            say("Fetching the sources of llama.cpp, which have the converter: 80 MB, once.")
            folder = wheels.unpacked(home, target)
            if folder is None:
                raise SetupFailed(pip.explain(wheels.log()))
        else:
            folder = sources.parents[2]
        return folder, python or environment(home / "python", folder / REQUIREMENTS, target)


def environment(home: Path, requirements: Path, target: Target) -> str:
    """Return the Python of an environment with what the converter imports."""
    program, ready = pip.program_of(home), home / "ready"
    if not ready.exists():
        say(f"Installing torch and more for the converter into {home}: some minutes, once.")
        made = subprocess.run(
            [target.python, "-m", "venv", "--clear", "--without-pip", str(home)],
            capture_output=True,
            check=False,
        )
        if made.returncode:
            raise SetupFailed(f"{home} cannot be made: {made.stderr.decode(errors='replace')}")
        own = [*pip.command(target.python)[:3], "--python", program]
        if not pip.run(own, "install", "--requirement", str(requirements), log=wheels.log()):
            raise SetupFailed(pip.explain(wheels.log()))
        ready.touch()
    return program


def run(command: Sequence[str], way: str) -> None:
    """Run the converter; `BackendError` with its last words, and a way out, if it fails."""
    log = store() / "converter.log"
    with log.open("wb") as out:
        try:
            code = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
        except OSError as error:
            raise BackendError(f"{command[0]} cannot be run: {error}") from error
    if code:
        lines = pip.content(log).splitlines() or [f"exit code {code}"]
        raise BackendError(
            f"llama.cpp's converter failed: {lines[-1]}{way}\nall it said is in {log}"
        )


def store() -> Path:
    return folders.cache() / "converter"
