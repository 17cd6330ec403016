"""Exact speculative decoding for language models on your own machine."""

import logging

from localspec.backend import Options
from localspec.engine.job import Chunk, Result
from localspec.engine.settings import Settings
from localspec.engine.worker import Stream
from localspec.errors import LocalSpecError
from localspec.memory.planner import Limits
from localspec.models.trial import footprint as inspect
from localspec.runtime.loading import Loading, load
from localspec.runtime.runtime import Runtime
from localspec.sampling.parameters import Sampling

__all__ = [
    "Chunk",
    "Limits",
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

logging.getLogger("localspec").addHandler(logging.NullHandler())  # quiet unless one listens
