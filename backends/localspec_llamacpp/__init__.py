"""GGUF models through llama.cpp, on CPU, CUDA, Metal and Vulkan."""

from localspec_llamacpp import threads  # noqa: F401  (before llama.cpp is loaded)
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.loading import build, load, probe
from localspec_llamacpp.rehearsal import rehearse

__all__ = ["build", "inspect", "load", "probe", "rehearse"]
