"""The devices that this build of llama.cpp sees: here, and on workers (RPC servers)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import socket
import struct
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from localspec.backend import Device
from localspec.errors import DeviceError
from localspec.system import free_memory
from localspec_llamacpp import ggml

KINDS = ("cpu", "gpu", "integrated gpu", "accelerator")  # by ggml's numbers
WORKERS = "LOCALSPEC_WORKERS"  # HOST:PORT,... of llama.cpp's RPC servers, whose devices are used
REMOTE = "RPC"
PATIENCE_SECONDS, LOOK_SECONDS = 2.0, 0.1  # for a worker to answer, and between two looks
HELLO = struct.pack("<BQ24x", 14, 24)  # the first message of llama.cpp's protocol


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
    connect(os.environ.get(WORKERS, ""))
    found = []
    for at in range(_ask("ggml_backend_dev_count", ctypes.c_size_t, library="ggml")):
        number = ctypes.c_size_t(at)
        pointer = _ask("ggml_backend_dev_get", ctypes.c_void_p, number, library="ggml")
        if _ask("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p(pointer)) < len(KINDS):
            found.append(place(pointer))
    return sorted(found, key=lambda each: not each.name.startswith(REMOTE))


def place(pointer: int) -> Place:
    handle = ctypes.c_void_p(pointer)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    _ask("ggml_backend_dev_memory", None, handle, ctypes.byref(free), ctypes.byref(total))
    kind = KINDS[_ask("ggml_backend_dev_type", ctypes.c_int, handle)]
    about = _ask("ggml_backend_dev_description", ctypes.c_char_p, handle).decode()
    name = _ask("ggml_backend_dev_name", ctypes.c_char_p, handle).decode()
    buffers = ctypes.c_void_p(_ask("ggml_backend_dev_buffer_type", ctypes.c_void_p, handle))
    of_buffers = _ask("ggml_backend_buft_name", ctypes.c_char_p, buffers).decode()
    device = counted(Device(about, kind, total.value, free.value))
    return Place(pointer, name, of_buffers, device)


def counted(device: Device) -> Device:
    """Count host memory as the system does, and tell Apple's GPUs, which share it."""
    if device.kind == "cpu":
        memory = free_memory.memory()
        return replace(device, total_bytes=memory.total_bytes, free_bytes=memory.free_bytes)
    if device.kind == "gpu" and sys.platform == "darwin" and platform.machine() == "arm64":
        return replace(device, kind="integrated gpu")
    return device


def gpus(found: Sequence[Place]) -> list[Place]:
    """Choose the devices that take layers; integrated ones only where there are no others."""
    own = [each for each in found if each.device.kind == "gpu"]
    return own or [each for each in found if each.takes_layers]


def unseen() -> tuple[str, ...]:
    """List the kinds of GPUs that this build is for and sees none of, as without their driver."""
    found = []
    for at in range(_ask("ggml_backend_reg_count", ctypes.c_size_t, library="ggml")):
        number = ctypes.c_size_t(at)
        kind = ctypes.c_void_p(
            _ask("ggml_backend_reg_get", ctypes.c_void_p, number, library="ggml")
        )
        name = _ask("ggml_backend_reg_name", ctypes.c_char_p, kind).decode()
        if name != REMOTE and not _ask("ggml_backend_reg_dev_count", ctypes.c_size_t, kind):
            found.append(name)
    return tuple(found)


def drivers(root: Path = Path("/")) -> tuple[str, ...]:
    """List what changes when a driver of a GPU does."""
    found = [platform.release(), platform.mac_ver()[0]]
    with contextlib.suppress(OSError):
        found.append((root / "proc/driver/nvidia/version").read_text(encoding="utf-8"))
    for folder in ("usr/share/vulkan/icd.d", "etc/vulkan/icd.d"):
        for file in sorted((root / folder).glob("*.json")):
            found.append(f"{file.name} {file.stat().st_mtime_ns}")  # noqa: PERF401
    return tuple(filter(None, found))


def connect(workers: str) -> None:
    """Let llama.cpp see the devices of workers, each once."""
    for endpoint in filter(None, workers.split(",")):
        _connect(endpoint.strip())


@cache
def _connect(endpoint: str) -> None:
    """Connect to a worker; llama.cpp would end the process if it could not."""
    try:
        remote = ggml.library("ggml-rpc")
    except (OSError, RuntimeError, FileNotFoundError) as error:
        raise DeviceError(
            f"{WORKERS} names {endpoint}, but this build of llama.cpp has no workers: build it "
            "with CMAKE_ARGS=-DGGML_RPC=on"
        ) from error
    require_answer(endpoint)
    registry = ggml.call(remote, "ggml_backend_rpc_add_server", ctypes.c_void_p, endpoint.encode())
    if not registry:
        raise DeviceError(f"the worker {endpoint} has no devices")
    _ask("ggml_backend_register", None, ctypes.c_void_p(registry), library="ggml")


def require_answer(endpoint: str) -> None:
    """Shake hands as llama.cpp does, which would wait for ever for a worker that is taken."""
    end = time.monotonic() + PATIENCE_SECONDS
    while why := refusal(endpoint, max(end - time.monotonic(), LOOK_SECONDS)):
        if time.monotonic() >= end:
            raise DeviceError(
                f"the worker {endpoint} does not answer ({why}): start it, let its other client "
                f"go, or leave it out of {WORKERS}"
            )
        time.sleep(LOOK_SECONDS)


def refusal(endpoint: str, seconds: float) -> str:
    """Say why a worker does not answer; empty if it does."""
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), seconds) as link:
            link.sendall(HELLO)
            return "" if link.recv(1) else "it hung up"
    except (OSError, ValueError) as error:
        return str(error)


def _ask(name: str, result: type | None, *arguments: object, library: str = "ggml-base") -> Any:
    return ggml.call(ggml.library(library), name, result, *arguments)
