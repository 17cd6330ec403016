"""Small graphs of ggml on the processor: tensors of numbers, an operation, its result."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from localspec_build import records
from localspec_llamacpp import ggml

Numbers = npt.NDArray[np.float32]
MARK = "localspec_products"  # exported by a libggml-cpu that has LocalSpec's kernels
CPU = "ggml-cpu"
KINDS = {"F16": np.float16, "F32": np.float32, "I32": np.int32}  # the rest is packed by ggml


def require_products() -> None:
    """Fail where LocalSpec's own build lacks its kernels; skip for a build of the makers."""
    if has_products():
        return
    made = records.installed(Path(sys.prefix))
    if made is not None and made.source == "built here":
        pytest.fail(f"libggml-cpu exports no {MARK}: build it again with localspec build")
    pytest.skip("llama.cpp is a build of its makers, without LocalSpec's kernels")


def has_products() -> bool:
    try:
        ggml.library(CPU)[MARK]
    except AttributeError:
        return False
    return True


class Graph:
    """Tensors and operations in memory of their own."""

    def __init__(self, size: int) -> None:
        ggml.call("ggml_cpu_init", None, origin=CPU)
        self.context = ggml.pointer("ggml_init", ggml.ContextForm(size, None, False))

    def tensor(self, kind: str, numbers: npt.NDArray[np.generic]) -> c_void_p:
        """Make a tensor of a type, whose dimensions are the array's from the last to the first."""
        shape = [c_int64(length) for length in (1, 1, 1, 1, *numbers.shape)[:-5:-1]]
        number = c_int(ggml.type_numbers()[kind])
        made = ggml.pointer("ggml_new_tensor_4d", self.context, number, *shape)
        target = ggml.pointer("ggml_get_data", made)
        if kind not in KINDS:
            rows, length = numbers.size // numbers.shape[-1], numbers.shape[-1]
            source = np.ascontiguousarray(numbers, np.float32).ctypes.data_as(c_void_p)
            sizes = c_int64(0), c_int64(rows), c_int64(length)
            ggml.call("ggml_quantize_chunk", c_size_t, number, source, target, *sizes, None)
        else:
            stored = np.ascontiguousarray(numbers, KINDS[kind])
            ctypes.memmove(target, stored.ctypes.data, stored.nbytes)
        return made

    def permuted(self, tensor: c_void_p) -> c_void_p:
        """Swap the two dimensions in the middle, without a copy."""
        order = [c_int(axis) for axis in (0, 2, 1, 3)]
        return ggml.pointer("ggml_permute", self.context, tensor, *order)

    def operation(self, name: str, *operands: c_void_p | c_float | None) -> c_void_p:
        return ggml.pointer(name, self.context, *operands)

    def numbers(self, tensor: c_void_p) -> Numbers:
        """Return what a tensor of any type holds, as float32."""
        count = ggml.call("ggml_nelements", c_int64, tensor)
        plan = ggml.pointer("ggml_new_graph", self.context)
        flat = ggml.pointer("ggml_cast", self.context, tensor, c_int(0))
        ggml.call("ggml_build_forward_expand", None, plan, flat)
        return self._computed(plan, flat, count, 1)

    def run(self, result: c_void_p, threads: int = 1) -> Numbers:
        """Compute an operation; return its numbers in one row."""
        plan = ggml.pointer("ggml_new_graph", self.context)
        ggml.call("ggml_build_forward_expand", None, plan, result)
        return self._computed(plan, result, ggml.call("ggml_nelements", c_int64, result), threads)

    def _computed(self, plan: c_void_p, result: c_void_p, count: int, threads: int) -> Numbers:
        arguments = self.context, plan, c_int(threads)
        assert ggml.call("ggml_graph_compute_with_ctx", c_int, *arguments, origin=CPU) == 0
        place = ggml.call("ggml_get_data", ctypes.POINTER(c_float), result)
        return np.ctypeslib.as_array(place, (count,)).copy()

    def close(self) -> None:
        ggml.call("ggml_free", None, self.context)


@contextmanager
def graph(mebibytes: int = 64) -> Iterator[Graph]:
    made = Graph(mebibytes << 20)
    try:
        yield made
    finally:
        made.close()
