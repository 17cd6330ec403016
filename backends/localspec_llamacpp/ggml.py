"""ggml's own functions, which the bindings lack; types of weights by them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
from llama_cpp._ctypes_extensions import load_shared_library

FOLDER = "LLAMA_CPP_LIB_PATH"  # names another one than the package's; llama-cpp-python reads it


class TensorType(NamedTuple):
    """A format of weights, as ggml knows it."""

    name: str
    block: int  # numbers that are packed together
    bytes: int  # of one such block; 0: unknown


class ContextForm(ctypes.Structure):
    """ggml_init_params."""

    _fields_ = (
        ("bytes", ctypes.c_size_t),
        ("buffer", ctypes.c_void_p),
        ("without_memory", ctypes.c_bool),
    )


@cache
def tensor_type(kind: int) -> TensorType:
    """Ask ggml for a type by its number; it would abort on one that it does not know."""
    if not 0 <= kind < llama_cpp.GGML_TYPE_COUNT:
        return TensorType(f"type {kind}", 1, 0)
    number = ctypes.c_int(kind)
    name = call("ggml_type_name", ctypes.c_char_p, number) or b""
    block = call("ggml_blck_size", ctypes.c_int64, number)
    size = call("ggml_type_size", ctypes.c_size_t, number)
    return TensorType(name.decode().upper() or f"type {kind}", max(block, 1), size)


@cache
def type_numbers() -> dict[str, int]:
    """Return the numbers of ggml's types by their names."""
    return {tensor_type(kind).name: kind for kind in range(llama_cpp.GGML_TYPE_COUNT)}


@cache
def library(name: str) -> ctypes.CDLL:
    """Load a library of ggml from where llama-cpp-python loads llama.cpp."""
    folder = os.environ.get(FOLDER) or Path(llama_cpp.__file__).parent / "lib"
    loaded: ctypes.CDLL = load_shared_library(name, Path(folder))
    return loaded


def call(name: str, result: type | None, *arguments: object, origin: str = "ggml-base") -> Any:
    """Call a function of one of ggml's libraries."""
    function = library(origin)[name]
    function.restype = result
    return function(*arguments)


def pointer(name: str, *arguments: object, origin: str = "ggml-base") -> ctypes.c_void_p:
    """Call a function that returns a pointer."""
    return ctypes.c_void_p(call(name, ctypes.c_void_p, *arguments, origin=origin))


def text(name: str, handle: ctypes.c_void_p) -> str:
    """Call a function that names something."""
    raw: bytes = call(name, ctypes.c_char_p, handle)
    return raw.decode()


@contextmanager
def tensor(count: int, more_bytes: int = 0) -> Iterator[tuple[ctypes.c_void_p, ctypes.c_void_p]]:
    """Describe a tensor of bytes that has no memory; `more_bytes` are for what its context holds.

    Yields the context and the tensor.
    """
    size = call("ggml_tensor_overhead", ctypes.c_size_t) + more_bytes
    context = pointer("ggml_init", ContextForm(size, None, True))
    try:
        kind, length = ctypes.c_int(llama_cpp.GGML_TYPE_I8), ctypes.c_int64(count)
        yield context, pointer("ggml_new_tensor_1d", context, kind, length)
    finally:
        call("ggml_free", None, context)
