"""Write a model in another precision, by llama.cpp's own quantiser.

python scripts/requantising.py SOURCE TARGET KIND
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import llama_cpp.llama_cpp as lib

from localspec.base.errors import BackendError
from localspec_llamacpp.bindings.library import FILE_TYPES
from localspec_llamacpp.bindings.log import LOG

PLAINEST = ("", "_S", "_MOE")  # of recipes: what follows the type of most of their weights


def requantise(source: Path, target: Path, kind: str, *, pure: bool = False) -> None:
    """Write a copy of a model in another precision; quantised weights lose a little more.

    `kind` is a recipe or a type of weights. A pure copy has all matrices in one type, but for those
    whose rows do not divide into its blocks.
    """
    numbers = {name: number for number, name in FILE_TYPES.items()}
    recipes = [kind.upper() + ending for ending in PLAINEST]
    params = lib.llama_model_quantize_default_params()
    params.ftype = next(numbers[recipe] for recipe in recipes if recipe in numbers)
    params.allow_requantize = True
    params.pure = pure
    LOG.take_errors()
    if lib.llama_model_quantize(os.fsencode(source), os.fsencode(target), params):
        raise BackendError(f"llama.cpp could not write {target.name}: {LOG.take_errors()}")


if __name__ == "__main__":
    requantise(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
