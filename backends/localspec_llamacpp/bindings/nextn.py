"""Hidden states for drafting heads: functions that llama.cpp does not call stable yet."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llama_cpp.llama_cpp as lib

ext: Any = None
try:  # another release may name them in another way
    from llama_cpp import llama_cpp_ext

    ext = llama_cpp_ext
except (ImportError, AttributeError):
    pass

CONTEXT, LAYER, FLOATS = lib.llama_context_p_ctypes, ctypes.c_uint32, ctypes.POINTER(ctypes.c_float)


def exported(symbols: Sequence[str], arguments: Sequence[Any], result: Any) -> Any:
    """Find a function of llama.cpp's by the names that compilers for C++ give it; None: none."""
    for symbol in symbols:
        function = getattr(lib._lib, symbol, None)
        if function is not None:
            function.argtypes, function.restype = arguments, result
            return function
    return None


# These let a context give the states of all tokens before a layer, and point to them.
tell_before = exported(
    (
        "llama_set_embeddings_layer_inp",
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
    ),
    [CONTEXT, LAYER, ctypes.c_bool],
    None,
)
states_before = exported(
    (
        "llama_get_embeddings_layer_inp",
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ),
    [CONTEXT, LAYER],
    FLOATS,
)


def available(*, layers: bool = False) -> bool:
    """Whether this build gives hidden states away, also those before single layers."""
    return ext is not None and (not layers or bool(tell_before and states_before))
