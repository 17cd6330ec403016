"""ggml's own functions, which the bindings lack: types of weights, and devices."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import llama_cpp
from llama_cpp._ctypes_extensions import load_shared_library

from localspec.backend import Device

DEVICE_KINDS = ("cpu", "gpu", "integrated gpu", "accelerator")


class TensorType(NamedTuple):
    """A format of weights, as ggml knows it."""

    name: str
    block: int  # numbers that are packed together
    bytes: int  # of one such block; 0: unknown


@cache
def tensor_type(kind: int) -> TensorType:
    """Ask ggml for a type by its number, which it would abort on if it does not know it."""
    if not 0 <= kind < llama_cpp.GGML_TYPE_COUNT:
        return TensorType(f"type {kind}", 1, 0)
    base, number = _library("ggml-base"), ctypes.c_int(kind)
    name = _call(base, "ggml_type_name", ctypes.c_char_p, number) or b""
    block = _call(base, "ggml_blck_size", ctypes.c_int64, number)
    size = _call(base, "ggml_type_size", ctypes.c_size_t, number)
    return TensorType(name.decode().upper() or f"type {kind}", max(block, 1), size)


def devices() -> list[Device]:
    """List the devices this build of llama.cpp can use, as ggml reports them."""
    base = _library("ggml-base")
    found = []
    for at in range(_call(_library("ggml"), "ggml_backend_dev_count", ctypes.c_size_t)):
        place = _call(
            _library("ggml"), "ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t(at)
        )
        device = ctypes.c_void_p(place)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _call(
            base, "ggml_backend_dev_memory", None, device, ctypes.byref(free), ctypes.byref(total)
        )
        name = _call(base, "ggml_backend_dev_description", ctypes.c_char_p, device)
        kind = _call(base, "ggml_backend_dev_type", ctypes.c_int, device)
        if kind < len(DEVICE_KINDS):
            found.append(Device(name.decode(), DEVICE_KINDS[kind], total.value, free.value))
    return found


def _library(name: str) -> ctypes.CDLL:
    library: ctypes.CDLL = load_shared_library(name, Path(llama_cpp.__file__).parent / "lib")
    return library


def _call(library: ctypes.CDLL, name: str, result: type | None, *arguments: object) -> Any:
    function = library[name]
    function.restype = result
    return function(*arguments)
