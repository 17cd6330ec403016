"""What stands beside every figure: command, revision, versions, machine."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

PACKAGES = ("llama-cpp-python", "mlx", "mlx-lm", "numpy")


def heading() -> str:
    packages = " ".join(f"{name} {version(name)}" for name in PACKAGES)
    return "\n".join(
        (
            f"command    {' '.join(['scripts/bench', *sys.argv[1:]])}",
            f"revision   {revision()}",
            f"versions   Python {platform.python_version()}, {packages}",
            f"machine    {processor()}, {platform.system()} {platform.machine()}",
        )
    )


def revision() -> str:
    """The commit this runs from, marked where the tree differs from it."""
    here = Path(__file__).parent
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=here,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or f"localspec {version('localspec')}"


def processor() -> str:
    names = Path("/proc/cpuinfo")
    if names.exists():
        lines = names.read_text(encoding="utf-8").splitlines()
        models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if models:
            return f"{len(models)} x {models[0]}"
    return platform.processor() or "unknown processor"


def spread(seconds: Sequence[float], unit: float = 1e-6) -> str:
    p50, p95 = np.percentile(seconds, [50, 95]) / unit
    return f"p50 {p50:8.1f}   p95 {p95:8.1f}"
