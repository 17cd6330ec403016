"""Exact speculative decoding for language models on your own machine."""

from localspec.backend import Options
from localspec.errors import LocalSpecError
from localspec.job import Chunk, Result
from localspec.loading import Loading, inspect, load
from localspec.runtime import Runtime
from localspec.sampling import Sampling
from localspec.settings import Settings
from localspec.worker import Stream

__all__ = [
    "Chunk",
    "Loading",
    "LocalSpecError",
    "Options",
    "Result",
    "Runtime",
    "Sampling",
    "Settings",
    "Stream",
    "inspect",
    "load",
]
