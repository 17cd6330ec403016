"""The functions of the seam, by MLX."""

from localspec_mlx.devices import build, probe
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.loading import load
from localspec_mlx.rehearsal import rehearse

__all__ = ["build", "inspect", "load", "probe", "rehearse"]
