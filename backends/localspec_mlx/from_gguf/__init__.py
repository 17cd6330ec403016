"""Convert a GGUF of the llama family into a folder that mlx-lm loads."""

from localspec_mlx.from_gguf.conversion import BITS, DTYPES, GROUP_SIZES, Wishes, convert

__all__ = ["BITS", "DTYPES", "GROUP_SIZES", "Wishes", "convert"]
