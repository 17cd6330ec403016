"""The devices that MLX runs on, and their memory."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace
from importlib.metadata import version
from weakref import WeakKeyDictionary

import mlx.core as mx

from localspec.base.errors import BackendError, OutOfMemory
from localspec.base.system import chips, free_memory
from localspec.interfaces.backend import Build, Device

# On CUDA MLX 0.32 ends a program once 800 evaluations in its lifetime were of new kinds, to show
# that it records graphs anew. A server that drafts comes there. This is read when a device is first
# used.
os.environ.setdefault("MLX_ENABLE_CACHE_THRASHING_CHECK", "0")

SHORTAGE = re.compile(r"alloc|out of memory|insufficient memory", re.I)


def probe() -> list[Device]:
    """List the device that models run on; memory is counted as its maker counts it."""
    info = mx.device_info()
    name = str(info.get("device_name", "unknown"))
    if mx.default_device() == mx.cpu:
        return [replace(free_memory.memory(), name=name)]
    if mx.metal.is_available():
        total = int(info["max_recommended_working_set_size"])
        free = max(total - mx.get_active_memory(), 0)
        return [Device(name, "integrated gpu", total, free, limit=chips.LIMIT)]
    total = int(info.get("total_memory", info.get("memory_size", 0)))
    free = int(info.get("free_memory", max(total - mx.get_active_memory(), 0)))
    return [Device(name, "gpu", total, free)]


def build() -> Build:
    devices = {"Metal": mx.metal.is_available(), "CUDA": mx.cuda.is_available(), "CPU": True}
    features = tuple(name for name, available in devices.items() if available)
    return Build(f"{version('mlx')}, mlx-lm {version('mlx-lm')}", features)


PLANNED: WeakKeyDictionary[object, int] = WeakKeyDictionary()  # bytes to work in, by model


def keep_buffers(model: object, working: int) -> None:
    """Let MLX keep as many freed bytes as its models were planned to work in, and no more.

    By itself it keeps more than the memory that a GPU should take.
    """
    PLANNED[model] = working
    if mx.default_device() != mx.cpu:
        mx.set_cache_limit(kept_buffers())


def kept_buffers() -> int:
    """Count the freed bytes that MLX may keep for the models that are loaded."""
    return sum(PLANNED.values())


def prepare() -> None:
    """Keep weights where the GPU reaches them."""
    if mx.metal.is_available():
        mx.set_wired_limit(int(mx.device_info()["max_recommended_working_set_size"]))


class Streams:
    """The streams a thread has used. MLX ends the program if a thread ends before them."""

    def __del__(self) -> None:
        mx.clear_streams()


THREAD = threading.local()


def tidy() -> None:
    """Make sure that this thread ends its streams before it ends itself."""
    if threading.current_thread() is not threading.main_thread():
        THREAD.streams = getattr(THREAD, "streams", None) or Streams()


def short_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or bool(SHORTAGE.search(str(error)))


def failure(failed: str, error: Exception) -> BackendError:
    """Make an error of what MLX could not do, and its reason."""
    return (OutOfMemory if short_of_memory(error) else BackendError)(f"{failed}: {error}")
