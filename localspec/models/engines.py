"""Engines by name, from whichever package offers them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from localspec.backend import Backend, Footprint
from localspec.errors import BackendError
from localspec.models.entry import Engine, Wish
from localspec.models.locate import locate

INSTALL: Mapping[Engine, str] = {
    "llamacpp": "pip install llama-cpp-python",
    "mlx": 'pip install "localspec[mlx]"',
}


def backend(name: Engine) -> Backend:
    [found] = entry_points(group="localspec.backends", name=name)
    try:
        # A module of functions; it is held against the protocol by the type checker.
        return cast(Backend, found.load())
    except ModuleNotFoundError as error:
        raise BackendError(f"{name} needs {error.name}: {INSTALL[name]}") from error
    except (ImportError, OSError, RuntimeError) as error:  # the last two: of a shared library
        raise BackendError(f"the engine {name} cannot be used: {error}") from error


def inspect(name_or_path: str | Path, wish: Wish = "auto") -> Footprint:
    """What the headers of a model's files say."""
    found = locate(str(name_or_path), wish)
    return backend(found.engine).inspect(found.path)
