"""llama.cpp's own converter, run in this process."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import NoReturn

from architectures.recipe import Recipe


class Unknown:
    """A model type that transformers does not know, as of models with code of their own."""

    @staticmethod
    def from_pretrained(*_: object, **__: object) -> NoReturn:
        raise ValueError("its configuration is read as it is written")


def convert(source: Path, recipe: Recipe, folder: Path, file: Path) -> None:
    """Write a GGUF in the type that the file's name ends with, 16 bits wide.

    The converter knows a vocabulary by the hash of what it makes of a text, and none of ours; so it
    is told which known one this is cut like. It keeps its options in its classes, so that a process
    must convert one model only.
    """
    sys.path.insert(0, str(source))
    from conversion import base

    base.TextModel.get_vocab_base_pre = lambda *_: recipe.pre or "default"
    if recipe.as_written:
        base.AutoConfig = Unknown
    outtype = file.stem.rpartition("-")[2].lower()
    part = ["--no-nextn"] if recipe.trunk else []
    if file.name.startswith("mmproj-"):
        part = ["--mmproj"]
    script = source / "convert_hf_to_gguf.py"
    sys.argv = [str(script), str(folder), "--outfile", str(file), "--outtype", outtype, *part]
    runpy.run_path(str(script), run_name="__main__")
    if not file.exists():
        raise ValueError(f"the converter wrote no {file.name}")
