"""The devices that this build of llama.cpp sees: here, and on workers (RPC servers)."""

from __future__ import annotations

import contextlib
import ctypes
import platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from localspec.base.system import chips, free_memory
from localspec.interfaces.backend import Device, Options
from localspec_llamacpp import ggml, remote

KINDS = ("cpu", "gpu", "integrated gpu", "accelerator")  # by ggml's numbers
REMOTE = "RPC"


class Place(NamedTuple):
    """A device as ggml knows it."""

    pointer: int
    name: str  # by which llama.cpp's log says where layers go: "CUDA0"
    buffers: str  # by which it says where buffers are: "CUDA0", "RPC0[127.0.0.1:50052]"
    device: Device

    @property
    def takes_layers(self) -> bool:
        return "gpu" in self.device.kind


def places() -> list[Place]:
    """List all devices, those of workers first, as llama.cpp does, to send less about."""
    remote.connect()
    usable = [
        place(pointer) for pointer in pointers() if worker_of(pointer) in ("", *remote.endpoints())
    ]
    return sorted(usable, key=lambda place: not place.device.worker)


def local() -> list[Place]:
    """List the devices of this machine."""
    return [place(pointer) for pointer in pointers() if not worker_of(pointer)]


def pointers() -> list[int]:
    """List all devices that ggml knows, and that are of a kind known here."""
    every = [
        ggml.call("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t(at), origin="ggml")
        for at in range(ggml.call("ggml_backend_dev_count", ctypes.c_size_t, origin="ggml"))
    ]
    return [pointer for pointer in every if kind_number(pointer) < len(KINDS)]


def kind_number(pointer: int) -> int:
    return int(ggml.call("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p(pointer)))


def worker_of(pointer: int) -> str:
    """Name the worker that has a device; empty: it is here."""
    handle = ctypes.c_void_p(pointer)
    is_remote = ggml.text("ggml_backend_dev_name", handle).startswith(REMOTE)
    return ggml.text("ggml_backend_dev_description", handle) if is_remote else ""


def place(pointer: int) -> Place:
    handle = ctypes.c_void_p(pointer)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ggml.call("ggml_backend_dev_memory", None, handle, ctypes.byref(free), ctypes.byref(total))
    about = ggml.text("ggml_backend_dev_description", handle)
    name = ggml.text("ggml_backend_dev_name", handle)
    buffers = ggml.pointer("ggml_backend_dev_buffer_type", handle)
    of_buffers = ggml.text("ggml_backend_buft_name", buffers)
    kind = KINDS[kind_number(pointer)]
    device = counted(Device(about, kind, total.value, free.value, worker_of(pointer)))
    return Place(pointer, name, of_buffers, device)


def counted(device: Device) -> Device:
    """Count host memory as the system does, and find Apple's GPUs, which share it."""
    if device.kind == "cpu":
        memory = free_memory.memory()
        return replace(device, total_bytes=memory.total_bytes, free_bytes=memory.free_bytes)
    local_gpu = device.kind == "gpu" and not device.worker
    if local_gpu and sys.platform == "darwin" and platform.machine() == "arm64":
        return replace(device, kind="integrated gpu", limit=chips.LIMIT)
    return device


def gpus(places: Sequence[Place]) -> list[Place]:
    """Choose the devices that take layers; integrated ones only where no others are here."""
    far = [place for place in places if place.device.worker]
    local = [place for place in places if place.takes_layers and not place.device.worker]
    return [*far, *([place for place in local if place.device.kind == "gpu"] or local)]


def on_cpu(options: Options) -> bool:
    return options.gpu_layers == 0 or not has_gpu()


def has_gpu() -> bool:
    return bool(gpus(places()))


def unseen() -> tuple[str, ...]:
    """List the kinds of GPUs that this build is for and sees none of, as without their driver."""
    names = []
    for at in range(ggml.call("ggml_backend_reg_count", ctypes.c_size_t, origin="ggml")):
        kind = ggml.pointer("ggml_backend_reg_get", ctypes.c_size_t(at), origin="ggml")
        name = ggml.text("ggml_backend_reg_name", kind)
        if name != REMOTE and not ggml.call("ggml_backend_reg_dev_count", ctypes.c_size_t, kind):
            names.append(name)
    return tuple(names)


def drivers(root: Path = Path("/")) -> tuple[str, ...]:
    """List what changes when a driver of a GPU does."""
    versions = [platform.release(), platform.mac_ver()[0]]
    with contextlib.suppress(OSError):
        versions.append((root / "proc/driver/nvidia/version").read_text(encoding="utf-8"))
    for folder in ("usr/share/vulkan/icd.d", "etc/vulkan/icd.d"):
        for file in sorted((root / folder).glob("*.json")):
            versions.append(f"{file.name} {file.stat().st_mtime_ns}")  # noqa: PERF401
    return tuple(filter(None, versions))
