"""The weights of a draft model of some of a model's own layers: one copy serves both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten, tree_unflatten

from localspec_mlx.folder import config as configuration
from localspec_mlx.folder.thinning import model_of, renumbered

LOADED: WeakValueDictionary[Path, Module] = WeakValueDictionary()  # that are in use, by folder


def note(path: Path, model: Module) -> None:
    """Let draft models of a model's layers find its weights."""
    LOADED[path.resolve()] = model


def share(path: Path, model: Module) -> None:
    """Give a draft model the arrays of the model it was made of, if that is in use."""
    made_of = model_of(configuration.read(path))
    whole = LOADED.get(made_of.path) if made_of else None
    if made_of and whole is not None:
        lend(whole, model, made_of.layers)


def lend(whole: Module, model: Module, layers: Sequence[int]) -> None:
    """Give a model of some layers of another the arrays of that one."""
    theirs = renumbered(arrays(whole), {old: new for new, old in enumerate(layers)})
    own = arrays(model)
    same = [
        (name, theirs[name])
        for name, array in own.items()
        if name in theirs and alike(theirs[name], array)
    ]
    model.update(tree_unflatten(same))


def alike(one: mx.array, other: mx.array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def arrays(model: Module) -> dict[str, mx.array]:
    return dict(tree_flatten(model.parameters()))  # type: ignore[no-untyped-call]
