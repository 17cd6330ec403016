"""The facts beside every figure: command, revision, versions, machine, model."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from localspec.base.system.fingerprint import installed_versions
from localspec.interfaces.backend import Device, Footprint
from localspec.running.models.engines import all_engines

ROOT = Path(__file__).parents[3]  # of a checkout


def facts(program: str, devices: Sequence[Device] = ()) -> dict[str, str]:
    """Collect what stands above every figure."""
    return {
        "command": command(program),
        "revision": revision(),
        "versions": versions(),
        "machine": machine(devices),
    }


def command(name: str, arguments: Sequence[str] | None = None) -> str:
    """The command line of this run."""
    return shlex.join([name, *(sys.argv[1:] if arguments is None else arguments)])


def revision(root: Path = ROOT) -> str:
    """The commit of this tree, marked where the tree differs from it; else the version."""
    if (root / ".git").exists():  # not that of a folder around an environment
        describe = ["git", "describe", "--always", "--dirty"]
        try:
            done = subprocess.run(describe, cwd=root, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            pass
        else:
            return done.stdout.strip()
    return f"localspec {version('localspec')}"


def versions(packages: Sequence[str] | None = None) -> str:
    """The versions of Python and of the installed packages that the engines use."""
    if packages is None:
        packages = [name for engine in all_engines() for name in engine.spec.packages]
    software = installed_versions(("localspec", *packages, "numpy"))
    return ", ".join([f"Python {platform.python_version()}", *software])


def processor() -> str:
    names = Path("/proc/cpuinfo")
    if names.exists():
        lines = names.read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if models:
            return f"{len(models)} x {models[0]}"
    return platform.processor() or "unknown processor"


def machine(devices: Sequence[Device] = ()) -> str:
    """The processor, the system, and what else there is to compute on."""
    others = [device.name for device in devices if device.kind != "cpu"]
    return ", ".join([processor(), f"{platform.system()} {platform.machine()}", *others])


def weights(footprint: Footprint) -> str:
    return f"{footprint.name or footprint.architecture}, {footprint.quantisation}"
