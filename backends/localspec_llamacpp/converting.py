"""Convert published drafting heads and adapters to GGUF, by llama.cpp's own converters.

They are in the source package of llama-cpp-python, but not among what that installs. They need
torch, and so run in an environment of their own, set up when the first file is converted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from localspec.base.errors import BackendError, ModelFileError
from localspec.interfaces.file_tools import Published
from localspec_build import folders, pip, wheels
from localspec_build.failure import SetupFailed
from localspec_build.pip import say
from localspec_build.target import PACKAGE, Target
from localspec_llamacpp.head_kinds import drafter
from localspec_llamacpp.headers import adapter as adapter_headers
from localspec_llamacpp.headers.header import read

SOURCES = "vendor/llama.cpp"
HEADS, ADAPTERS = "convert_hf_to_gguf.py", "convert_lora_to_gguf.py"  # in there
REQUIREMENTS = "requirements/requirements-convert_hf_to_gguf.txt"  # of both


class Conversion(NamedTuple):
    """A run of one of the converters."""

    script: str
    published: Published
    options: Sequence[str]
    way_out: str  # what may help where it fails
    check: Callable[[Path], None]  # refuses what it wrote


def convert(head: Published, out: Path, target: Target | None = None) -> None:
    """Write a head as a GGUF file; `BackendError` if the converter cannot."""

    def check(made: Path) -> None:
        if not drafter(read(made)):
            raise ModelFileError(f"{head.folder} is a whole model: it has no drafting head alone")

    # A head without a target is among a model's own weights.
    of = ("--target-model-dir", str(head.model)) if head.model else ("--mtp",)
    way_out = "" if head.model else "; a head in a folder of its own needs --target FOLDER"
    run(Conversion(HEADS, head, of, way_out, check), out, target)


def convert_adapter(adapter: Published, out: Path, target: Target | None = None) -> None:
    """Write an adapter as a GGUF file; `BackendError` if the converter cannot."""
    of = ("--base", str(adapter.model)) if adapter.model else ()
    way_out = "" if adapter.model else "; the folder of its model can be given by --base FOLDER"

    def check(made: Path) -> None:
        adapter_headers.check(read(made))

    run(Conversion(ADAPTERS, adapter, of, way_out, check), out, target)


def run(conversion: Conversion, out: Path, target: Target | None) -> None:
    """Convert in a folder of its own, so that no half of a file is ever left."""
    try:
        folder, python = set_up(target or installed(), conversion.published.python)
    except (SetupFailed, OSError) as error:
        raise BackendError(str(error)) from error
    with tempfile.TemporaryDirectory(prefix=".converting-", dir=out.absolute().parent) as place:
        made = Path(place) / out.name
        words = [str(conversion.published.folder), *conversion.options, "--outfile", str(made)]
        words += ["--outtype", conversion.published.kind]
        call([python, str(folder / conversion.script), *words], conversion.way_out)
        conversion.check(made)
        made.replace(out)


def set_up(target: Target, python: str) -> tuple[Path, str]:
    """Return llama.cpp's sources and a Python for them; get both where they are not there."""
    folder, home = sources(target), home_of(target)
    with FileLock(home / "lock"):
        return folder, python or environment(home / "python", folder / REQUIREMENTS, target)


def installed() -> Target:
    """Name the llama.cpp of this Python, which reads what its converter writes."""
    return Target(sys.executable, Path(sys.prefix), f"{PACKAGE}=={version(PACKAGE)}")


def sources(target: Target) -> Path:
    """Return the folder of llama.cpp's sources; fetch them where they are not there."""
    home = home_of(target)
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / "lock"):
        if script := next(home.glob(f"*/{SOURCES}/{HEADS}"), None):
            return script.parent
        say("Fetching the sources of llama.cpp, which have the converter: 80 MB, once.")
        unpacked = wheels.unpack_sources(home, target)
        if unpacked is None:
            raise SetupFailed(pip.explain(wheels.log()))
        return unpacked / SOURCES


def home_of(target: Target) -> Path:
    return store() / target.requirement.removeprefix(f"{PACKAGE}==")


def environment(home: Path, requirements: Path, target: Target) -> str:
    """Return the Python of an environment with what the converters import."""
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


def call(command: Sequence[str], way_out: str) -> None:
    """Run a converter; `BackendError` with its last words, and a way out, if it fails."""
    log = store() / "converter.log"
    with log.open("wb") as out:
        try:
            code = subprocess.run(command, stdout=out, stderr=out, check=False).returncode
        except OSError as error:
            raise BackendError(f"{command[0]} cannot be run: {error}") from error
    if code:
        lines = pip.content(log).splitlines() or [f"exit code {code}"]
        raise BackendError(
            f"llama.cpp's converter failed: {lines[-1]}{way_out}\nall it said is in {log}"
        )


def store() -> Path:
    return folders.cache() / "converter"
