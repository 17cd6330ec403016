"""A trained head in the files of an engine, and what drafting with it costs here."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import torch

from localspec.apps.training.state import State
from localspec.apps.training.support import layers_read
from localspec.base.errors import UsageError
from localspec.interfaces.backend import Options
from localspec.interfaces.costs import Costs
from localspec.interfaces.footprint import Footprint
from localspec.interfaces.trained_head import TrainedHead
from localspec.running.models import trial
from localspec.running.models.engines import all_engines
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.calibration import calibrate
from localspec.running.runtime.kept_calibrations import measure_apart

CONTEXT = 1024  # tokens, of the models that are timed


def export(files: ModelFiles, folder: Path, format: str, out: Path) -> None:
    """Write the head that was trained in a folder, as "gguf" or as "mlx"."""
    state = State.load(folder, torch.device("cpu"))
    if state is None:
        raise UsageError(f"nothing was trained in {folder}")
    footprint = trial.footprint(files.path, files.engine.name)
    write_head(trained_head(state, footprint), format, files.path, out)


def write_head(head: TrainedHead, format: str, target: Path, out: Path) -> None:
    for spec in (engine.spec for engine in all_engines()):
        if spec.format == format and spec.heads:
            return spec.heads.write(head, target, out)
    raise UsageError(f"no engine here writes heads as {format!r}")


def trained_head(state: State, footprint: Footprint) -> TrainedHead:
    """Take the averaged weights, with the scale of the states in the first matrix."""
    tensors = {**state.average, "fc": state.average["fc"] * state.scale}
    return TrainedHead(
        state.shape,
        layers_read(footprint.layers),
        state.vocabulary,
        {name: tensor.cpu().numpy() for name, tensor in tensors.items()},
        footprint.vocabulary,
        footprint.context,
    )


def measured_costs(files: ModelFiles, head: TrainedHead) -> Costs:
    """Load a target with a head, and time forwards and drafts."""
    spec = files.engine.spec
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("head" if spec.folder else f"head.{spec.format}")
        write_head(head, spec.format, files.path, path)
        options = Options(context=CONTEXT, head=path)
        with closing(files.engine.backend().load(files.path, options)) as model:
            calibration = measure_apart(lambda: calibrate(model))
    return (calibration if calibration.steady else calibration.in_plain_rounds()).costs()
