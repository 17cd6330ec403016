"""The links to workers, measured: what a trip takes, and what goes through in a second."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import llama_cpp

from localspec.backend_spec import Link
from localspec.errors import DeviceError
from localspec_llamacpp import worker_graphs
from localspec_llamacpp.devices import Place, places
from localspec_llamacpp.ggml import ContextForm, call_base

TRIPS = 10
FIRST_BYTES, MOST_BYTES = 1 << 16, 1 << 24
LONG_ENOUGH = 0.05  # seconds, in which a link's speed shows


def links() -> Sequence[Link]:
    """Measure the links to the workers in use, by the first device of each."""
    first = {place.device.worker: place for place in reversed(places()) if place.device.worker}
    return [measured(place) for place in reversed(first.values())]


def measured(place: Place) -> Link:
    """Measure the link to a device; roughly where that is nearly full."""
    most = MOST_BYTES if place.device.free_bytes > 2 * MOST_BYTES else FIRST_BYTES
    with numbers_on(place, most) as numbers:
        least = min(trip(numbers) for _ in range(TRIPS))
        count = FIRST_BYTES
        while (taken := sent(numbers, count)) < LONG_ENOUGH and count < most:
            count *= 4
    return Link(place.device.worker, least, count / max(taken - least, 1e-6))


@contextmanager
def numbers_on(place: Place, count: int) -> Iterator[ctypes.c_void_p]:
    """Hold `count` bytes on a device, and so the connection to its worker."""
    buffers = call_base("ggml_backend_dev_buffer_type", ctypes.c_void_p, vp(place.pointer))
    held = call_base("ggml_backend_buft_alloc_buffer", ctypes.c_void_p, vp(buffers), size(count))
    if not held:
        raise DeviceError(f"{place.device.worker} has no memory left to measure its link")
    form = ContextForm(call_base("ggml_tensor_overhead", ctypes.c_size_t) * 2, None, True)
    context = call_base("ggml_init", ctypes.c_void_p, form)
    try:
        kind, length = ctypes.c_int(llama_cpp.GGML_TYPE_I8), ctypes.c_int64(count)
        made = call_base("ggml_new_tensor_1d", ctypes.c_void_p, vp(context), kind, length)
        base = call_base("ggml_backend_buffer_get_base", ctypes.c_void_p, vp(held))
        call_base("ggml_backend_tensor_alloc", ctypes.c_int, vp(held), vp(made), vp(base))
        yield vp(made)
    finally:
        call_base("ggml_free", None, vp(context))
        call_base("ggml_backend_buffer_free", None, vp(held))
        worker_graphs.forget()


def sent(numbers: ctypes.c_void_p, count: int) -> float:
    """Time the sending of bytes, until the worker has taken them."""
    data = zeros(count)
    begun = time.perf_counter()
    call_base("ggml_backend_tensor_set", None, numbers, data, size(0), size(count))
    trip(numbers)  # the worker answers it only then
    return time.perf_counter() - begun


def trip(numbers: ctypes.c_void_p) -> float:
    """Time a trip to a worker and back, for a byte."""
    begun = time.perf_counter()
    call_base("ggml_backend_tensor_get", None, numbers, zeros(1), size(0), size(1))
    return time.perf_counter() - begun


@cache
def zeros(count: int) -> Any:
    return ctypes.create_string_buffer(count)


def size(count: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(count)


def vp(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)
