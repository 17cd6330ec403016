"""ggml's own functions, which the bindings lack; types of weights by them."""

from __future__ import annotations

import ctypes
import os
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
    """Ask ggml for a type by its number, which it would abort on if it does not know it."""
    if not 0 <= kind < llama_cpp.GGML_TYPE_COUNT:
        return TensorType(f"type {kind}", 1, 0)
    base, number = library("ggml-base"), ctypes.c_int(kind)
    name = call(base, "ggml_type_name", ctypes.c_char_p, number) or b""
    block = call(base, "ggml_blck_size", ctypes.c_int64, number)
    size = call(base, "ggml_type_size", ctypes.c_size_t, number)
    return TensorType(name.decode().upper() or f"type {kind}", max(block, 1), size)


@cache
def library(name: str) -> ctypes.CDLL:
    """Load a library of ggml from where llama-cpp-python loads llama.cpp."""
    folder = os.environ.get(FOLDER) or Path(llama_cpp.__file__).parent / "lib"
    loaded: ctypes.CDLL = load_shared_library(name, Path(folder))
    return loaded


def call(origin: ctypes.CDLL, name: str, result: type | None, *arguments: object) -> Any:
    function = origin[name]
    function.restype = result
    return function(*arguments)


def call_base(name: str, result: type | None, *arguments: object) -> Any:
    """Call a function of ggml itself."""
    return call(library("ggml-base"), name, result, *arguments)
