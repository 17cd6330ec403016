"""GGUF models through llama.cpp, on CPU, CUDA, Metal and Vulkan."""

from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.loading import load, probe

__all__ = ["inspect", "load", "probe"]
