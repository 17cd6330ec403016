"""Write a model in another precision, by llama.cpp's own quantiser.

python scripts/requantising.py SOURCE TARGET KIND
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import llama_cpp.llama_cpp as lib

from localspec.errors import BackendError
from localspec_llamacpp.bindings.library import FILE_TYPES
from localspec_llamacpp.bindings.log import LOG


def requantise(source: Path, target: Path, kind: str) -> None:
    """Write a copy of a model in another precision; quantised weights lose a little more."""
    params = lib.llama_model_quantize_default_params()
    params.ftype = next(number for number, name in FILE_TYPES.items() if name == kind.upper())
    params.allow_requantize = True
    LOG.take_errors()
    if lib.llama_model_quantize(os.fsencode(source), os.fsencode(target), params):
        raise BackendError(f"llama.cpp could not write {target.name}: {LOG.take_errors()}")


if __name__ == "__main__":
    requantise(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
