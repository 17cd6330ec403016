"""MLX models through mlx-lm's definitions: Apple silicon, and Linux with CUDA or none."""

from localspec_mlx.spec import SPEC

__all__ = ["SPEC"]
