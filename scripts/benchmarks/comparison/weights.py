"""The file that every side is given."""

from __future__ import annotations

from pathlib import Path

from localspec.running.models.locate import locate
from requantising import requantise

STARTER = "smollm2-135m"
AS_IT_IS = "no"
KINDS = ("q4_0", "q4_1", "q8_0", "q4_k_m", AS_IT_IS)


def weights(name_or_path: str, kind: str, folder: Path) -> Path:
    """Return a model's file, or a copy of it in another precision."""
    path_of_original = locate(name_or_path, "llamacpp").path
    if kind == AS_IT_IS:
        return path_of_original
    path = folder / f"{path_of_original.stem.removesuffix('.Q4_1')}.{kind}.gguf"
    requantise(path_of_original, path, kind)
    return path
