"""Exact speculative decoding for language models on your own machine."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localspec.base.errors import LocalSpecError
    from localspec.core.requests.job import Chunk, Result, ToolCall
    from localspec.core.requests.settings import Settings
    from localspec.core.requests.worker import Stream
    from localspec.core.sampling.parameters import Sampling
    from localspec.formats.grammar.grammar import Grammar
    from localspec.interfaces.adapter import Adapter
    from localspec.interfaces.backend import DraftOptions, Options
    from localspec.running.memory.planner import Limits
    from localspec.running.models.trial import footprint as inspect
    from localspec.running.runtime.async_model import AsyncModel, AsyncStream, load_async
    from localspec.running.runtime.decisions.answer import Answer
    from localspec.running.runtime.decisions.question import Question
    from localspec.running.runtime.loading import Loading, load
    from localspec.running.runtime.phases import Phase
    from localspec.running.runtime.reply_options import ReplyOptions
    from localspec.running.runtime.runtime import Runtime
    from localspec.running.runtime.vector_loading import load_vectors
    from localspec.running.runtime.vector_runtime import VectorRuntime

__all__ = [
    "Adapter",
    "Answer",
    "AsyncModel",
    "AsyncStream",
    "Chunk",
    "DraftOptions",
    "Grammar",
    "Limits",
    "Loading",
    "LocalSpecError",
    "Options",
    "Phase",
    "Question",
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
    "Adapter": "localspec.interfaces.adapter",
    "Answer": "localspec.running.runtime.decisions.answer",
    "AsyncModel": "localspec.running.runtime.async_model",
    "AsyncStream": "localspec.running.runtime.async_model",
    "Chunk": "localspec.core.requests.job",
    "DraftOptions": "localspec.interfaces.backend",
    "Grammar": "localspec.formats.grammar.grammar",
    "Limits": "localspec.running.memory.planner",
    "Loading": "localspec.running.runtime.loading",
    "LocalSpecError": "localspec.base.errors",
    "Options": "localspec.interfaces.backend",
    "Phase": "localspec.running.runtime.phases",
    "Question": "localspec.running.runtime.decisions.question",
    "ReplyOptions": "localspec.running.runtime.reply_options",
    "Result": "localspec.core.requests.job",
    "Runtime": "localspec.running.runtime.runtime",
    "Sampling": "localspec.core.sampling.parameters",
    "Settings": "localspec.core.requests.settings",
    "Stream": "localspec.core.requests.worker",
    "ToolCall": "localspec.core.requests.job",
    "VectorRuntime": "localspec.running.runtime.vector_runtime",
    "inspect": "localspec.running.models.trial:footprint",
    "load": "localspec.running.runtime.loading",
    "load_async": "localspec.running.runtime.async_model",
    "load_vectors": "localspec.running.runtime.vector_loading",
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
