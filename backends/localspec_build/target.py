"""The environment that llama.cpp is installed into, and the release of it that LocalSpec wants."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

PACKAGE = "llama-cpp-python"
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
