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


def tell(context: object, *, outputs_only: bool) -> None:
    """Let a context give the hidden states of all tokens, or of outputs only."""
    if ext is None:
        raise BackendError("this release of llama-cpp-python gives no hidden states: upgrade it")
    ext.llama_set_embeddings_nextn(context, True, outputs_only)


def choose_block(context: object, block: int) -> None:
    """Choose which of a head's blocks runs next."""
    assert ext is not None
    ext.llama_set_nextn_layer_offset(context, block)


def hidden(context: object, rows: int, width: int) -> Hidden:
    """Return the hidden states of the newest batch, valid until the next one."""
    assert ext is not None
    place = ext.llama_get_embeddings_nextn(context)
    if not place:
        raise BackendError("llama.cpp gave no hidden states")
    view: Hidden = np.ctypeslib.as_array(place, (rows, width))
    return view
