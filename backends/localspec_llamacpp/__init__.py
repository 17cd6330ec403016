"""GGUF models through llama.cpp, on CPU, CUDA, Metal and Vulkan."""

import sys
from pathlib import Path

from localspec_llamacpp import libraries
from localspec_llamacpp.spec import SPEC

__all__ = ["SPEC"]

libraries.load(Path(sys.prefix))
