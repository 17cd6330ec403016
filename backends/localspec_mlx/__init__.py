"""MLX models through mlx-lm's definitions: Apple silicon, and Linux with CUDA or none."""

from localspec_mlx.devices import probe
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.loading import load

__all__ = ["inspect", "load", "probe"]
