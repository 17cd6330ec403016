"""A model as mlx-lm would load it, whose weights are never read: MLX is lazy until asked."""

from __future__ import annotations

import glob
import pkgutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import mlx.core as mx
import mlx_lm
from mlx.nn.layers.base import Module
from mlx_lm import models
from mlx_lm.utils import MODEL_REMAPPING, load_model
from mlx_lm.utils import _get_classes as get_classes

from localspec_mlx.folder.config import Config
from localspec_mlx.folder.embedder import pooling
from localspec_mlx.folder.files import Object, refuse
from localspec_mlx.folder.keeping import SlotUse, kept
from localspec_mlx.folder.weights import quantisation

PATIENCE_SECONDS = 30.0  # 64 layers take 0.3 seconds, 70,000 tensors in 61 files 1.5


@dataclass(frozen=True, slots=True)
class Skeleton:
    """Facts that only a model's definition has."""

    layers: int
    settings: Object  # what the configuration says, and what it leaves to the definition
    quantisation: str
    kept: SlotUse


def lay_out(config: Config, seconds: float = PATIENCE_SECONDS) -> Skeleton:
    """Lay out a model by the headers of its shards, which must be what its definition asks for."""
    check_known(config)
    folder = config.path.parent
    if glob.escape(str(folder)) != str(folder):
        refuse(folder, "has one of *?[ in its path, a pattern to mlx-lm: rename it")
    try:
        with limited(seconds):
            model = lazy_model(config)
            use = kept(model, config.model_type)
            return Skeleton(len(model.layers), settings(model), quantisation(model), use)
    except Exception as error:  # of whatever kind: definitions of all sorts run here
        expected = f"a {config.model_type} model as mlx-lm {mlx_lm.__version__} knows it"
        why = f"{type(error).__name__}: {error}"
        refuse(folder, f"is not {expected} ({why}): choose another conversion")
    finally:
        # Weights were to be drawn, though never were: their dice must not wait to be thrown.
        mx.eval(mx.random.state[0])  # type: ignore[index]


def lazy_model(config: Config) -> Module:
    """Load a model without reading its weights; an embedder without an output."""
    embedder: dict[str, Any] = {}
    if pooling(config):
        tied = {"tie_word_embeddings": True}
        embedder = {"model_config": tied, "get_model_classes": bare_classes}
    model: Module = load_model(config.path.parent, lazy=True, **embedder)[0]
    return model


def bare_classes(config: dict[str, Any]) -> tuple[Any, Any]:
    """Find a definition, for weights that may be those of its inner model alone."""
    kind, arguments = get_classes(config)

    def sanitize(self: Module, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        bare = not any(name.startswith("model.") for name in weights)
        inner = {
            f"model.{name}" if bare else name: array
            for name, array in weights.items()
            if not name.startswith("lm_head.")
        }
        return kind.sanitize(self, inner) if hasattr(kind, "sanitize") else inner

    return type(kind.__name__, (kind,), {"sanitize": sanitize}), arguments


def check_known(config: Config) -> None:
    name = config.model_type
    if is_model(name):
        return
    names = {module.name for module in pkgutil.iter_modules(models.__path__)} | set(MODEL_REMAPPING)
    close = [near for near in get_close_matches(name, sorted(names)) if is_model(near)]
    hint = f" (it knows {', '.join(close)})" if close else ""
    fault = f"is of a {name!r} model, which mlx-lm {mlx_lm.__version__} does not know{hint}"
    refuse(config.path, f"{fault}: a newer one may, pip install -U mlx-lm")


def is_model(name: str) -> bool:
    """Return whether mlx-lm has a model of this name, rather than a part that models share."""
    try:
        get_classes({"model_type": name})
    except (AttributeError, ValueError):
        return False
    return True


def settings(model: Module) -> Object:
    values: dict[str, object] = {}
    for module in reversed(model.modules()):  # type: ignore[no-untyped-call]
        for arguments in (vars(module).get("args"), vars(module).get("config")):
            values |= getattr(arguments, "__dict__", {})
    return values


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """End Python code of this thread that takes too long: numbers can make it loop for ages."""
    end = time.monotonic() + seconds

    def look(*_: object) -> None:
        if time.monotonic() > end:
            raise TimeoutError(f"its numbers take more than {seconds:g} seconds to lay out")

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(before)
