"""The links to workers, measured: what a trip takes, and what goes through in a second."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from localspec.base.errors import DeviceError
from localspec.interfaces.other_machines import Link
from localspec_llamacpp import ggml, worker_graphs
from localspec_llamacpp.devices import Place, places

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
    kind = ggml.pointer("ggml_backend_dev_buffer_type", ctypes.c_void_p(place.pointer))
    buffer = ggml.pointer("ggml_backend_buft_alloc_buffer", kind, ctypes.c_size_t(count))
    if not buffer:
        raise DeviceError(f"{place.device.worker} has no memory left to measure its link")
    try:
        with ggml.tensor(count) as (_, numbers):
            base = ggml.pointer("ggml_backend_buffer_get_base", buffer)
            ggml.call("ggml_backend_tensor_alloc", ctypes.c_int, buffer, numbers, base)
            yield numbers
    finally:
        ggml.call("ggml_backend_buffer_free", None, buffer)
        worker_graphs.forget()


def sent(numbers: ctypes.c_void_p, count: int) -> float:
    """Time the sending of bytes, until the worker has taken them."""
    data = zeros(count)
    begun = time.perf_counter()
    part = ctypes.c_size_t(0), ctypes.c_size_t(count)
    ggml.call("ggml_backend_tensor_set", None, numbers, data, *part)
    trip(numbers)  # the worker answers it only then
    return time.perf_counter() - begun


def trip(numbers: ctypes.c_void_p) -> float:
    """Time a trip to a worker and back, for a byte."""
    begun = time.perf_counter()
    part = ctypes.c_size_t(0), ctypes.c_size_t(1)
    ggml.call("ggml_backend_tensor_get", None, numbers, zeros(1), *part)
    return time.perf_counter() - begun


@cache
def zeros(count: int) -> Any:
    return ctypes.create_string_buffer(count)
