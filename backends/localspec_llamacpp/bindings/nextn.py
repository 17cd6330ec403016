"""Hidden states for drafting heads: functions that llama.cpp does not call stable yet."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from localspec.errors import BackendError
from localspec_llamacpp.bindings.batch import Hidden

try:  # another release may name them in another way
    from llama_cpp import llama_cpp_ext as found

    ext: ModuleType | None = found
except (ImportError, AttributeError):
    ext = None


def available() -> bool:
    """Whether this build gives hidden states away."""
    return ext is not None


def tell(context: object) -> None:
    """Let a context give the hidden states of all tokens.

    Those of outputs only are what the graphs of heads have not: there, the first rows would be
    taken for them.
    """
    if ext is None:
        raise BackendError("this release of llama-cpp-python gives no hidden states: upgrade it")
    ext.llama_set_embeddings_nextn(context, True, False)


def hidden(context: object, rows: int, width: int) -> Hidden:
    """Return the hidden states of the newest batch, valid until the next one."""
    assert ext is not None
    place = ext.llama_get_embeddings_nextn(context)
    if not place:
        raise BackendError("llama.cpp gave no hidden states")
    view: Hidden = np.ctypeslib.as_array(place, (rows, width))
    return view
