"""The forms in which a model is tried: file types of llama.cpp, and folders of mlx-lm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from architectures.recipe import Recipe

WIDE = ("F16", "BF16")  # written by the converter itself
QUANTISED = ("Q8_0", "Q4_K_M", "Q6_K", "IQ4_XS", "Q4_0", "MXFP4_MOE")
# As they are; 8 and 4 bits; mlx-lm's recipe of mixed bits; bits and groups of each layer's own.
MLX = ("MLX", "MLX-8", "MLX-4", "MLX-MIXED", "MLX-LAYERS")
ALL = (*WIDE, *QUANTISED, *MLX)


@dataclass(frozen=True, slots=True)
class Cell:
    """One model in one form."""

    name: str
    kind: str
    path: Path
    origin: Path  # the folder that it was made of

    @property
    def projector(self) -> Path | None:
        """The file by which it sees, if it is there."""
        path = projector(self.origin.parents[1], self.name)
        return path if path.exists() and self.kind not in MLX else None

    @property
    def drafting_layers(self) -> int:
        """The drafting layers in the files; configurations promise more, and mlx-lm drops them."""
        return int("-mtp" in self.name and self.kind not in MLX)


def cell(folder: Path, name: str, kind: str) -> Cell:
    form = f"mlx/{name}-{kind}" if kind in MLX else f"gguf/{name}-{kind}.gguf"
    return Cell(name, kind, folder / form, folder / "hf" / name)


def projector(folder: Path, name: str) -> Path:
    """Name the projector of a model, which all its forms share."""
    return folder / "gguf" / f"mmproj-{name}-F16.gguf"


def suits(recipe: Recipe, kind: str) -> bool:
    """Tell whether a model is to be had in a form."""
    return kind != "MXFP4_MOE" or recipe.expert
