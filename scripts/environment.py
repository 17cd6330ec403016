"""The set-up behind every script here: one virtual environment in .venv, made once, kept current.

.venv belongs to these scripts. The syntax is Python 3.6's, so that old ones reach the version test.
"""

import contextlib
import functools
import hashlib
import os
import re
import shutil
import signal
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from subprocess import DEVNULL, STDOUT, CalledProcessError, Popen, TimeoutExpired, run
from typing import IO, NoReturn

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        f"LocalSpec needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.\n"
        "Install a newer one (python.org has them) and name it: python3.12 scripts/start"
    )

import tomllib

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOG = VENV / "pip.log"
LOCK = ROOT / ".cache" / "environment.lock"  # not in .venv, which is cleared under the lock
STAMP = VENV / "ready"  # what the last successful set-up made true, a fact a line
JAVASCRIPT = ROOT / "tests" / "server" / "js"
HOME = f"home {str(ROOT)!r} {sysconfig.get_platform()} {sysconfig.get_python_version()}"
PROBE = "from importlib.util import find_spec as f; print(f('localspec') and f('llama_cpp') or '')"

# pip exits with 1 for everything, so the cause is looked up in its log.
DISK_FULL = r"No space left on device|Disk quota exceeded|WinError 112\b"
MEMORY_FULL = r"\bKilled\b|out of heap space|Cannot allocate memory"
BUILD_FAILED = r"Failed building wheel|CMake configuration failed"
UNREACHABLE = r"connection broken by|Max retries exceeded|timed out|\(from versions: none\)"
COMPILER_ADVICE = {
    "darwin": "run `xcode-select --install`",
    "win32": "install the Visual Studio Build Tools with `Desktop development with C++`",
    "linux": "install g++ or clang, as root: apt-get install g++ (or dnf install gcc-c++)",
}

say = functools.partial(print, file=sys.stderr)


def ensure(extras: Iterable[str]) -> str:
    """Return the Python of an environment that holds LocalSpec with these extras."""
    wanted = facts(extras)
    try:
        if not holds(wanted):
            with only_one():
                if not holds(wanted):
                    set_up(wanted)
    except KeyboardInterrupt:
        say("\nStopped. The same command starts the set-up again.")
        sys.exit(130)
    except (OSError, ValueError) as error:
        sys.exit(f"The set-up of {VENV} failed: {error}")
    return program("python")


def ensure_javascript() -> None:
    """Install what the tests' scripts import, where npm is there; a test tells if it failed."""
    npm, wanted = shutil.which("npm"), JAVASCRIPT / "package.json"
    made = JAVASCRIPT / "node_modules" / "ready"
    if npm is None or (made.exists() and made.stat().st_mtime >= wanted.stat().st_mtime):
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
    return {HOME, f"project {digest}", *(f"extra {extra}" for extra in extras)}


def stamped() -> set[str]:
    return set(STAMP.read_text(encoding="utf-8").splitlines()) if STAMP.is_file() else set()


def holds(wanted: set[str]) -> bool:
    """Tell whether the environment was set up for these facts and still finds LocalSpec."""
    return wanted <= stamped() and answers(program("python"), "-Ic", PROBE)


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


def set_up(wanted: set[str]) -> None:
    """Make the wanted facts true; an environment that lost its stamp half-way is made anew."""
    wanted = wanted | {fact for fact in stamped() if fact.startswith("extra ")}
    extras = ",".join(sorted(fact[6:] for fact in wanted if fact.startswith("extra ")))
    aside = STAMP.with_suffix(".next")
    if holds({HOME}):
        say(f"Updating .venv for {extras}. Less than a minute, as a rule.")
        STAMP.replace(aside)
    else:
        say("Setting up .venv: packages, and building llama.cpp. About five minutes, once.")
        create()
    if not installs(f".[{extras}]"):
        if aside.exists():
            aside.replace(STAMP)  # pip failed in good order: what was there before still is
        sys.exit(explain())
    aside.write_text("\n".join(sorted(wanted)), encoding="utf-8")
    aside.replace(STAMP)


def create() -> None:
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        sys.exit(f"This Python lacks venv: sudo apt-get install python3.{sys.version_info[1]}-venv")
    try:
        venv.create(VENV, clear=True, with_pip=True, symlinks=sys.platform != "win32")
    except CalledProcessError as error:
        LOG.write_bytes(error.output)
        sys.exit(explain())


def installs(package: str) -> bool:
    command = [program("python"), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--no-input", "--editable", package]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or pip would outlive the lock
    with LOG.open("wb") as log:
        pip = Popen(command, cwd=ROOT, stdin=DEVNULL, stdout=log, stderr=STDOUT)
    try:
        return watch(pip) == 0
    except KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt, TimeoutExpired):
            pip.wait(timeout=5)  # pip got the Ctrl-C too, and tidies up
        pip.kill()
        raise


def watch(pip: Popen[bytes]) -> int:
    """Wait for pip, and show now and then how long it has been at work and on what."""
    begun = time.monotonic()
    interval_seconds, end = (1, "\r") if sys.stderr.isatty() else (60, "\n")
    while pip.poll() is None:
        with contextlib.suppress(TimeoutExpired):
            pip.wait(timeout=interval_seconds)
        minutes, seconds = divmod(int(time.monotonic() - begun), 60)
        status = f"{minutes}:{seconds:02} {''.join(log_text().splitlines()[-1:]).strip()}"
        say(f"{status:79.79}", end=end if pip.returncode is None else "\n")
    return pip.returncode


def log_text() -> str:
    return LOG.read_text(encoding="utf-8", errors="replace").strip()


def explain() -> str:
    """Name the cause of a failed set-up as far as the log and the machine tell it."""
    log = log_text()
    if re.search(DISK_FULL, log) or shutil.disk_usage(VENV).free < 2**20:
        cause = "The disk is full, here or where temporary files go: free 2 GB"
    elif re.search(BUILD_FAILED, log) and not has_compiler():
        advice = COMPILER_ADVICE.get(sys.platform, COMPILER_ADVICE["linux"])
        cause = f"llama.cpp has to be built and there is no C++ compiler: {advice}"
    elif re.search(MEMORY_FULL, log):
        cause = "The memory is full: set CMAKE_BUILD_PARALLEL_LEVEL=1 (a slower build)"
    elif re.search(UNREACHABLE, log) and not re.search(BUILD_FAILED, log):
        cause = "The package index cannot be reached: check the network (or pip's configuration)"
    else:
        return "\n".join([*log.splitlines()[-15:], f"\npip failed; its whole output is in {LOG}"])
    return f"{cause}, then run the same command again.\npip's output is in {LOG}"


def has_compiler() -> bool:
    """Tell whether a C++ compiler is in sight; looked for only after a build has failed."""
    if sys.platform == "darwin" and "CXX" not in os.environ:
        return answers("xcode-select", "-p")  # /usr/bin/c++ is there before there is a compiler
    names = os.environ.get("CXX", "c++ g++ clang++ cl").split()
    vswhere = f"{os.environ.get('PROGRAMFILES(X86)')}/Microsoft Visual Studio/Installer/vswhere.exe"
    find = (vswhere, "-products", "*", "-find", r"VC\Tools\MSVC\**\cl.exe")
    return any(map(shutil.which, names)) or answers(*find)
