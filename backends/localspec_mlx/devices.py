"""What MLX runs on here, and how much memory that has."""

from __future__ import annotations

from importlib.metadata import version

import mlx.core as mx
import psutil

from localspec.backend import Device
from localspec.errors import BackendError

LEAST_ON_METAL = (0, 32)


def probe() -> list[Device]:
    """The device that models run on; memory is counted as its maker counts it."""
    info = mx.device_info()
    name = str(info.get("device_name", "unknown"))
    if mx.default_device() == mx.cpu:
        memory = psutil.virtual_memory()
        return [Device(name, "cpu", memory.total, memory.available)]
    if mx.metal.is_available():
        total = int(info["max_recommended_working_set_size"])
        return [Device(name, "integrated gpu", total, max(total - mx.get_active_memory(), 0))]
    total = int(info.get("total_memory", info.get("memory_size", 0)))
    free = int(info.get("free_memory", max(total - mx.get_active_memory(), 0)))
    return [Device(name, "gpu", total, free)]


def prepare() -> None:
    """Refuse an MLX that is too slow to speculate with; keep weights where the GPU reaches them."""
    if not mx.metal.is_available():
        return
    found = version("mlx")
    if tuple(map(int, found.split(".")[:2])) < LEAST_ON_METAL:
        raise BackendError(
            f"mlx {found} takes 5 times as long for 7 tokens as for one where weights are "
            "quantised, so guessing would not pay; 0.32 does not: pip install --upgrade mlx mlx-lm"
        )
    mx.set_wired_limit(int(mx.device_info()["max_recommended_working_set_size"]))
