"""The functions of the seam, by llama.cpp."""

from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.loading import build, load, probe
from localspec_llamacpp.rehearsal import rehearse

__all__ = ["build", "inspect", "load", "probe", "rehearse"]
