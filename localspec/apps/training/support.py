"""Targets that a head can be trained for, and the layers of them that it reads."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.interfaces.observed_model import ObservedModel
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles

CHECKPOINT = "checkpoint.pt"  # the state of a training, in its folder
NEEDED = {"torch": "PyTorch", "gguf": "gguf"}
INSTALL = 'pip install "localspec[train]"'


def require_trainable(files: ModelFiles) -> None:
    """Refuse a target that gives no inner states; what trains must be installed."""
    for module, name in NEEDED.items():
        if find_spec(module) is None:
            raise UsageError(f"training needs {name}: {INSTALL}")
    layers = layers_read(trial.footprint(files.path, files.engine.name).layers)
    files.engine.backend()  # which says what is missing
    with closing(open_target(files, layers, 2)) as target:
        list(target.read(tokens_of([0, 1])))


def open_target(files: ModelFiles, layers: tuple[int, ...], most: int) -> ObservedModel:
    """Load a target for texts of at most so many tokens, to observe the inputs of these layers."""
    if (heads := files.engine.spec.heads) is None:
        raise UsageError(f"{files.engine} gives no inner states of a model, to train a head by")
    return heads.observe(files.path, layers, most)


def layers_read(layers: int) -> tuple[int, ...]:
    """Choose the three layers whose inputs a head reads, as published heads do."""
    if layers < 3:
        raise UsageError(f"the model has {layers} layers; a head reads three")
    return (2, layers // 2, layers - 3) if layers > 8 else (layers - 3, layers - 2, layers - 1)
