"""Exact speculative decoding for language models on your own machine."""

import logging

from localspec.backend import Options
from localspec.errors import LocalSpecError
from localspec.job import Chunk, Result
from localspec.loading import Loading, load
from localspec.planning import Limits
from localspec.runtime import Runtime
from localspec.sampling import Sampling
from localspec.settings import Settings
from localspec.trial import footprint as inspect
from localspec.worker import Stream

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
