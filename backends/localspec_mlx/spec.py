"""The description of MLX, read before it is imported."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from localspec.interfaces.backend_spec import BackendSpec, RemoteModel, deferred
from localspec.interfaces.file_tools import AdapterTools, HeadTools, Projectors
from localspec.interfaces.other_machines import Group

CONFIG, WEIGHTS = "config.json", "*.safetensors"
POOLING = "1_Pooling/config.json"  # says how a text becomes a vector
# What mlx-lm reads of a repository; never code.
FILES = ("*.json", WEIGHTS, "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt")


def claims(path: Path) -> bool:
    return (path / CONFIG).is_file()


def models(names: Sequence[str]) -> list[RemoteModel]:
    """The folder that a repository is, if it is one."""
    files = [
        name
        for name in names
        if "/" not in name and any(fnmatch(name, pattern) for pattern in FILES)
    ]
    whole = CONFIG in files and any(fnmatch(name, WEIGHTS) for name in files)
    below = [name for name in names if name == POOLING]  # at last: the first names the folder
    return [RemoteModel("", (*files, *below))] if whole else []


def launcher(hosts: Sequence[str], processes: int, link: str) -> list[str]:
    """Start by mlx.launch, which reaches other machines by ssh."""
    tool = str(Path(sys.executable).with_name("mlx.launch"))
    machines = ["--hosts", ",".join(hosts), "-n", str(processes)]
    return [tool, *machines, "--backend", link or "ring", "--"]


APPLE_SILICON = sys.platform == "darwin" and platform.machine() == "arm64"

SPEC = BackendSpec(
    module="localspec_mlx.backend",
    format="mlx",
    kind="an MLX folder",
    install='pip install "localspec[mlx]"',
    claims=claims,
    folder=True,
    models=models,
    packages=("mlx", "mlx-lm"),
    preference=1 if APPLE_SILICON else -1,
    wide_batches=(2048, 1024),
    slow_without_gpu=True,
    vectors="localspec_mlx.vectors",
    group=Group(launcher, deferred("localspec_mlx.member", "join")),
    projectors=Projectors(
        deferred("localspec_mlx.folder.pictures", "tower_in"),
        deferred("localspec_mlx.folder.pictures", "described_tower"),
        deferred("localspec_mlx.folder.pictures", "none_to_download"),
        deferred("localspec_mlx.folder.pictures", "nothing_missing"),
    ),
    adapters=AdapterTools(deferred("localspec_mlx.folder.adapter", "describe")),
    heads=HeadTools(
        deferred("localspec_mlx.observing", "observe"),
        deferred("localspec_mlx.folder.head_writing", "write_head"),
        thin=deferred("localspec_mlx.folder.thinning", "thin"),
    ),
)
