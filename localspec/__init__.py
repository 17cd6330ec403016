"""Exact speculative decoding for language models on your own machine."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localspec.adapter import Adapter
    from localspec.backend import Options
    from localspec.engine.job import Chunk, Result, ToolCall
    from localspec.engine.settings import Settings
    from localspec.engine.worker import Stream
    from localspec.errors import LocalSpecError
    from localspec.grammar.grammar import Grammar
    from localspec.memory.planner import Limits
    from localspec.models.trial import footprint as inspect
    from localspec.runtime.async_model import AsyncModel, AsyncStream, load_async
    from localspec.runtime.loading import Loading, load
    from localspec.runtime.phases import Phase
    from localspec.runtime.reply_options import ReplyOptions
    from localspec.runtime.runtime import Runtime
    from localspec.runtime.vector_loading import load_vectors
    from localspec.runtime.vector_runtime import VectorRuntime
    from localspec.sampling.parameters import Sampling

__all__ = [
    "Adapter",
    "AsyncModel",
    "AsyncStream",
    "Chunk",
    "Grammar",
    "Limits",
    "Loading",
    "LocalSpecError",
    "Options",
    "Phase",
    "ReplyOptions",
    "Result",
    "Runtime",
    "Sampling",
    "Settings",
    "Stream",
    "ToolCall",
    "VectorRuntime",
    "inspect",
    "load",
    "load_async",
    "load_vectors",
]

# The module of each name, imported when the name is first used: all of them take a third of a
# second, and `localspec --version` needs none.
_MODULES = {
    "Adapter": "localspec.adapter",
    "AsyncModel": "localspec.runtime.async_model",
    "AsyncStream": "localspec.runtime.async_model",
    "Chunk": "localspec.engine.job",
    "Grammar": "localspec.grammar.grammar",
    "Limits": "localspec.memory.planner",
    "Loading": "localspec.runtime.loading",
    "LocalSpecError": "localspec.errors",
    "Options": "localspec.backend",
    "Phase": "localspec.runtime.phases",
    "ReplyOptions": "localspec.runtime.reply_options",
    "Result": "localspec.engine.job",
    "Runtime": "localspec.runtime.runtime",
    "Sampling": "localspec.sampling.parameters",
    "Settings": "localspec.engine.settings",
    "Stream": "localspec.engine.worker",
    "ToolCall": "localspec.engine.job",
    "VectorRuntime": "localspec.runtime.vector_runtime",
    "inspect": "localspec.models.trial:footprint",
    "load": "localspec.runtime.loading",
    "load_async": "localspec.runtime.async_model",
    "load_vectors": "localspec.runtime.vector_loading",
}

if not TYPE_CHECKING:  # a type checker would take any name to be there

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, own_name = _MODULES[name].partition(":")
        value = getattr(import_module(module), own_name or name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


logging.getLogger("localspec").addHandler(logging.NullHandler())  # quiet unless one listens
