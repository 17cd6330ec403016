"""LocalSpec's own matrix products, where llama.cpp's library for processors was built with them.

A model that is loaded while they are in use has its matrices packed for them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from localspec_build.kernels import FEATURE
from localspec_llamacpp import ggml
from localspec_llamacpp.headers.metadata import Tensor

LIBRARY, BUFFERS = "ggml-cpu", "CPU_LOCALSPEC"
CPU_DEVICE = 0  # ggml's kind of device
ROWS = 16  # of a matrix, which lie in one panel
LIST = b"ggml_backend_dev_get_extra_bufts"


def name() -> str:
    """Name the instructions that the products are made of; empty: none serve here."""
    return answered() or ""


def features() -> tuple[str, ...]:
    """Report the products as a feature of a build; nothing where it was built without."""
    answer = answered()
    return () if answer is None else (f"{FEATURE} ({answer or 'not for this processor'})",)


def use(on: bool) -> None:
    """Let models that are loaded from now on have the products, or llama.cpp's own."""
    if answered() is not None:
        library_answer("localspec_products_use", None, ctypes.c_int(on))


@contextmanager
def computing_only(panels: NDArray[np.uint8] | None) -> Iterator[None]:
    """Let this thread's forwards compute these panels of an output matrix alone; None: all.

    The results of the others are as low as no logit is. Products that were built before know
    nothing of it, and other devices compute all.
    """
    choose = "localspec_products_choose"
    if panels is None or not answered() or not chooses():
        yield
        return
    library_answer(choose, None, panels.ctypes.data_as(ctypes.c_void_p), ctypes.c_int(len(panels)))
    try:
        yield
    finally:
        library_answer(choose, None, None, ctypes.c_int(0))


@cache
def chooses() -> bool:
    """Whether the products can leave panels out."""
    try:
        library_answer("localspec_products_choose", None, None, ctypes.c_int(0))
    except AttributeError:
        return False
    return True


@cache
def answered() -> str | None:
    """Ask the library; None where it was built without products."""
    try:
        answer = library_answer("localspec_products", ctypes.c_char_p)
    except (OSError, RuntimeError, AttributeError):  # no such library, or no such function
        return None
    return (answer or b"").decode("ascii", "replace")


def library_answer(function: str, result: type | None, *arguments: object) -> Any:
    """Call a function of the library that llama.cpp itself has loaded.

    By its path it may be loaded a second time, as wheels hold copies of it in place of links.
    Windows knows libraries by name, and looks into one alone.
    """
    origin = ggml.library(LIBRARY) if sys.platform == "win32" else lib._lib
    function_pointer = origin[function]
    function_pointer.restype = result
    return function_pointer(*arguments)


def packed_bytes(tensor: Tensor) -> int:
    """Count the bytes of a matrix that is packed for the products; 0: there are none."""
    if (buffers := buffer_type()) is None:
        return 0
    with ggml.tensor(1, ggml.call("ggml_tensor_overhead", ctypes.c_size_t)) as (context, _):
        kind = ctypes.c_int(ggml.type_numbers()[tensor.kind])
        sizes = (ctypes.c_int64 * 4)(*tensor.shape)
        count = ctypes.c_int(len(tensor.shape))
        matrix = ggml.pointer("ggml_new_tensor", context, kind, count, sizes)
        return int(ggml.call("ggml_backend_buft_get_alloc_size", ctypes.c_size_t, buffers, matrix))


@cache
def buffer_type() -> ctypes.c_void_p | None:
    """Find the type of buffers that packed matrices lie in."""
    device = ggml.pointer("ggml_backend_dev_by_type", ctypes.c_int(CPU_DEVICE), origin="ggml")
    registry = ggml.pointer("ggml_backend_dev_backend_reg", device)
    address = ggml.pointer("ggml_backend_reg_get_proc_address", registry, ctypes.c_char_p(LIST))
    if not address.value:
        return None
    types = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address.value)(
        device
    )
    for buffers in listed(types):
        if ggml.text("ggml_backend_buft_name", buffers) == BUFFERS:
            return buffers
    return None


def listed(types: Any) -> Sequence[ctypes.c_void_p]:
    """Read a list that ends with nothing."""
    count = 0
    while types and types[count]:
        count += 1
    return [ctypes.c_void_p(types[at]) for at in range(count)]
