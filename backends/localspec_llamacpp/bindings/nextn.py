"""Hidden states for drafting heads: functions that llama.cpp does not call stable yet."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

import llama_cpp.llama_cpp as lib

from localspec.errors import BackendError

try:  # another release may name them in another way
    from llama_cpp import llama_cpp_ext as found

    ext: ModuleType | None = found
except (ImportError, AttributeError):
    ext = None

Function = Callable[..., Any]


def exported(name: str, gnu: str, microsoft: str, takes: list[Any], gives: Any) -> Function | None:
    """Find a function of llama.cpp's by the name that a compiler for C++ gave it."""
    for symbol in (name, f"_Z{len(name)}{name}{gnu}", f"?{name}@@{microsoft}@Z"):
        function: Function | None = getattr(lib._lib, symbol, None)
        if function is not None:
            function.argtypes, function.restype = takes, gives  # type: ignore[attr-defined]
            return function
    return None


CONTEXT, LAYER, FLOATS = lib.llama_context_p_ctypes, ctypes.c_uint32, ctypes.POINTER(ctypes.c_float)
tell_of, states_of = (
    exported(
        "llama_set_embeddings_layer_inp",
        "P13llama_contextjb",
        "YAXPEAUllama_context@@I_N",
        [CONTEXT, LAYER, ctypes.c_bool],
        None,
    ),
    exported(
        "llama_get_embeddings_layer_inp",
        "P13llama_contextj",
        "YAPEAMPEAUllama_context@@I",
        [CONTEXT, LAYER],
        FLOATS,
    ),
)


def available(*, layers: bool = False) -> bool:
    """Whether this build gives hidden states away, also those before single layers."""
    return ext is not None and (not layers or bool(tell_of and states_of))


def tell(context: object, *, outputs_only: bool, on: bool = True) -> None:
    """Let a context give the hidden states of all tokens, or of outputs only; or none any more."""
    if ext is None:
        raise BackendError("this release of llama-cpp-python gives no hidden states: upgrade it")
    ext.llama_set_embeddings_nextn(context, on, outputs_only)


def choose_block(context: object, block: int) -> None:
    """Choose which of a head's blocks runs next."""
    assert ext is not None
    ext.llama_set_nextn_layer_offset(context, block)


def linked(context: object) -> int | None:
    """Return the address of the context whose memory this one looks into."""
    assert ext is not None
    return cast(int | None, ext.llama_get_ctx_other(context))


def tell_before(context: object, layer: int, *, on: bool = True) -> None:
    """Let a context give the hidden states of all tokens before a layer, or not any more."""
    assert tell_of is not None
    tell_of(context, layer, on)


def hidden_before(context: object, layer: int) -> Any:
    """Point to the hidden states before a layer, valid until the next batch."""
    assert states_of is not None
    return required(states_of(context, layer))


def hidden(context: object) -> Any:
    """Point to the hidden states of the newest batch, valid until the next one."""
    assert ext is not None
    return required(ext.llama_get_embeddings_nextn(context))


def required(place: Any) -> Any:
    if not place:
        raise BackendError("llama.cpp gave no hidden states")
    return place
