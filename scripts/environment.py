"""The set-up behind every script here: one virtual environment in .venv, made once, kept current.

.venv belongs to these scripts. The syntax is Python 3.6's, so that old ones reach the version test.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from subprocess import DEVNULL, CalledProcessError, run
from typing import IO, NoReturn

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        f"LocalSpec needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.\n"
        "Install a newer one (python.org has them) and name it: python3.12 scripts/start"
    )

import tomllib

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "backends"))  # needs nothing that is not in the standard library

from localspec_build import kernels, pip, records, wheels  # noqa: E402
from localspec_build.choice import AUTO, RPC, general  # noqa: E402
from localspec_build.failure import SetupFailed  # noqa: E402
from localspec_build.machine import Tools, has_compiler  # noqa: E402
from localspec_build.pip import say  # noqa: E402
from localspec_build.rebuild import rebuild  # noqa: E402
from localspec_build.target import Target  # noqa: E402

VENV = ROOT / ".venv"
LOG = VENV / "pip.log"
LOCK = ROOT / ".cache" / "environment.lock"  # not in .venv, which is cleared under the lock
STAMP = VENV / "ready"  # what the last successful set-up made true, a fact a line
JAVASCRIPT = ROOT / "tests" / "apps" / "server" / "js"
HOME = f"home {str(ROOT)!r} {sysconfig.get_platform()} {sysconfig.get_python_version()}"
PROBE = "from importlib.util import find_spec as f; print(f('localspec') and f('llama_cpp') or '')"


def ensure(extras: Iterable[str], quick: bool = False) -> str:
    """Return the Python of an environment that holds LocalSpec with these extras.

    A `quick` one may have a llama.cpp for processors of many kinds.
    """
    required = facts(extras)
    try:
        if not settled(required, quick):
            with only_one():
                if not settled(required, quick):
                    set_up(required, quick)
    except KeyboardInterrupt:
        say("\nStopped. The same command starts the set-up again.")
        sys.exit(130)
    except SetupFailed as error:
        sys.exit(str(error))
    except (OSError, ValueError) as error:
        sys.exit(f"The set-up of {VENV} failed: {error}")
    return program("python")


def ensure_javascript() -> None:
    """Install what the tests' scripts import, where npm is there; a test tells if it failed."""
    npm, manifest = shutil.which("npm"), JAVASCRIPT / "package.json"
    made = JAVASCRIPT / "node_modules" / "ready"
    if npm is None or (made.exists() and made.stat().st_mtime >= manifest.stat().st_mtime):
        return
    say("Installing the JavaScript clients of the tests. Less than a minute, as a rule.")
    quietly = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")
    with only_one():
        if run([npm, "install", *quietly], cwd=JAVASCRIPT, stdin=DEVNULL).returncode == 0:
            made.touch()


def program(name: str) -> str:
    """Return where the environment keeps one of its programs."""
    folder = "Scripts" if sys.platform == "win32" else "bin"
    return str(VENV / folder / name) + str(sysconfig.get_config_var("EXE"))


def become(*command: str) -> NoReturn:
    """Run a command in place of this script, so that its exit code is ours."""
    if sys.platform == "win32":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's to answer
        sys.exit(run(command).returncode)
    os.execv(command[0], command)


def facts(extras: Iterable[str]) -> set[str]:
    """State what a set-up has to make true; a new lint rule in pyproject.toml installs nothing."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    read_by_pip = repr([tables["build-system"], tables["project"], tables["tool"]["hatch"]])
    digest = hashlib.sha256(read_by_pip.encode()).hexdigest()
    return {HOME, f"project {digest}", build(), *(f"extra {extra}" for extra in extras)}


def build() -> str:
    """State the build of llama.cpp that was chosen; no environment has it before."""
    request = records.requested()
    return f"build {RPC} {request.kind} {request.cmake}" if request else "build to choose"


def stamped(stamp: Path = STAMP) -> set[str]:
    return set(stamp.read_text(encoding="utf-8").splitlines()) if stamp.is_file() else set()


def holds(required: set[str]) -> bool:
    """Tell whether the environment was set up for these facts and still finds LocalSpec."""
    return required <= stamped() and answers(program("python"), "-Ic", PROBE)


def settled(required: set[str], quick: bool) -> bool:
    """Tell whether the environment is as it has to be."""
    return holds(required) and own_build(quick)


def own_build(quick: bool = False) -> bool:
    """Tell whether llama.cpp is one for this machine, as far as it can be built here.

    A `quick` one may be any, unless a better one was built before: that takes seconds.
    """
    made = records.installed(VENV)
    if made is None or not (general(made) or lacks_products(made)):
        return True
    if quick:
        return not wheels.kept([wheels.place(made.kind, made.cmake)])
    return not has_compiler(Tools(os.environ))


def lacks_products(made: records.Installed) -> bool:
    """Tell whether it was built here with other products than those of this checkout."""
    return made.source == records.BUILT and made.products != kernels.current()


def answers(*command: str) -> bool:
    """Tell whether a command exists, succeeds and prints something."""
    with contextlib.suppress(OSError, CalledProcessError):
        return bool(run(command, capture_output=True, check=True).stdout.strip())
    return False


@contextlib.contextmanager
def only_one() -> Iterator[None]:
    """Keep other set-ups out; the system frees the lock even when this process is killed."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("a") as lock:
        if not takes(lock):
            say(f"Waiting for another set-up of {VENV}.")
            while not takes(lock):
                time.sleep(0.5)
        yield


def takes(lock: IO[str]) -> bool:
    with contextlib.suppress(BlockingIOError, PermissionError):
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def set_up(required: set[str], quick: bool) -> None:
    """Make the wanted facts true; an environment that lost its stamp half-way is made anew."""
    required = required | {fact for fact in stamped() if fact.startswith("extra ")}
    extras = ",".join(sorted(fact[6:] for fact in required if fact.startswith("extra ")))
    aside = STAMP.with_suffix(".next")
    if holds({HOME}):
        say(f"Updating .venv for {extras}. Less than a minute, as a rule.")
        STAMP.replace(aside)
    else:
        say("Setting up .venv: packages, and llama.cpp for this machine.")
        create()
    try:
        if build() not in stamped(aside) or not own_build(quick):
            build_engine(quick)
        say("Installing LocalSpec and its packages.")
        install(f".[{extras}]")
    except SetupFailed:
        if aside.exists():
            aside.replace(STAMP)  # pip failed in good order: what was there before still is
        raise
    kept = {fact for fact in required if not fact.startswith("build ")}
    aside.write_text("\n".join(sorted({*kept, build()})), encoding="utf-8")
    aside.replace(STAMP)


def build_engine(quick: bool) -> None:
    """Install the build of llama.cpp that was chosen before, or the one that fits here."""
    target = Target.of(program("python"), VENV)
    rebuild(
        records.requested() or records.BuildRequest(AUTO), target, or_processor=True, quick=quick
    )


def create() -> None:
    if VENV.is_symlink():
        raise SetupFailed(f"{VENV} is a link, and what it leads to would be cleared: remove it")
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        sys.exit(f"This Python lacks venv: sudo apt-get install python3.{sys.version_info[1]}-venv")
    try:
        venv.create(VENV, clear=True, with_pip=True, symlinks=sys.platform != "win32")
    except CalledProcessError as error:
        LOG.write_bytes(error.output)
        raise SetupFailed(pip.explain(LOG)) from error


def install(package: str) -> None:
    command = [program("python"), "-m", "pip"]
    if not pip.run(command, "install", "--editable", package, log=LOG, folder=ROOT):
        raise SetupFailed(pip.explain(LOG))
