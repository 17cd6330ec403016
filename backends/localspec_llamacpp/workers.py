"""Devices for other machines, by llama.cpp's own RPC server."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil

from localspec.base.errors import DeviceError, UsageError
from localspec.base.system import free_memory
from localspec.interfaces.other_machines import Worker
from localspec_llamacpp import devices, ggml, remote
from localspec_llamacpp.cores import physical_cores
from localspec_llamacpp.devices import Place

MEMORY_WORD = 2  # of a device's functions the one that reports its memory

Sizes = ctypes.POINTER(ctypes.c_size_t)
Memory = ctypes.CFUNCTYPE(None, ctypes.c_void_p, Sizes, Sizes)


def serve(worker: Worker, tell: Callable[[str], object]) -> None:
    """Let others use devices of this machine, until Ctrl-C; `tell` hears when they can."""
    remote.rpc("a worker is asked for")
    endpoint = address(worker.host, worker.port)
    offers = [Offer(place, worker.memory) for place in places_for(worker.device)]
    listed = (ctypes.c_void_p * len(offers))(*[offer.pointer for offer in offers])
    if worker.cache:
        worker.cache.mkdir(parents=True, exist_ok=True)
    cache = os.fsencode(worker.cache) if worker.cache else None
    if not worker.verbose:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # llama.cpp's words
    threads, count = ctypes.c_size_t(physical_cores()), ctypes.c_size_t(len(offers))
    name, arguments = "ggml_backend_rpc_start_server", (endpoint.encode(), cache, threads, count)
    run = partial(ggml.call, name, None, *arguments, listed, origin="ggml-rpc")
    server = threading.Thread(target=run, daemon=True)  # in C: Ctrl-C is heard in this thread
    server.start()
    while server.is_alive() and remote.look(endpoint, remote.PATIENCE_SECONDS).fault:
        time.sleep(remote.LOOK_SECONDS)
    if server.is_alive():
        tell(f"worker at {endpoint}")
        for offer in offers:
            tell(offer.describe())
    while server.is_alive():
        server.join(1.0)
    raise DeviceError(f"llama.cpp does not serve at {endpoint}")


class Offer:
    """A device that is offered, and how much of its memory.

    ggml takes all memory of a host for free, and knows no bound; so it is asked for here.
    """

    def __init__(self, place: Place, most: int | None) -> None:
        self._place, self._most = place, most
        self.pointer, self._asked = place.pointer, False
        self._word = ctypes.cast(place.pointer, ctypes.POINTER(ctypes.c_void_p))
        self._usual = Memory(self._word[MEMORY_WORD])
        self._instead = Memory(self._answer)
        self._before = self._taken()
        if most is not None or place.device.kind == "cpu":
            self._answer_in_place()

    def _answer_in_place(self) -> None:
        kept = self._word[MEMORY_WORD]
        self._word[MEMORY_WORD] = ctypes.cast(self._instead, ctypes.c_void_p)
        devices.place(self.pointer)
        if not self._asked:
            self._word[MEMORY_WORD] = kept
            raise DeviceError("this release of llama.cpp does not let a worker report its memory")

    def _answer(self, _: object, free: Any, total: Any) -> None:
        self._asked = True
        free[0], total[0] = self.sizes()

    def sizes(self) -> tuple[int, int]:
        """Return the bytes that are free of those that are offered, and these."""
        free, total = self._free()
        if self._most is None:
            return free, total
        left = self._most - (self._taken() - self._before)
        return max(min(free, left), 0), min(self._most, total)

    def _free(self) -> tuple[int, int]:
        if self._place.device.kind == "cpu":
            memory = free_memory.memory()
            return memory.free_bytes, memory.total_bytes
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._usual(self.pointer, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def _taken(self) -> int:
        """Count the bytes in use: of the host by this process, of a GPU by all."""
        if self._place.device.kind == "cpu":
            return int(psutil.Process().memory_info().rss)
        free, total = self._free()
        return total - free

    def describe(self) -> str:
        free, total = (f"{count / 2**30:.1f} GiB" for count in self.sizes())
        return f"{self._place.device.kind}: {self._place.device.name}, {free} free of {total}"


def address(host: str, port: int) -> str:
    """Name a free address by numbers, as llama.cpp wants it."""
    try:
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name == "posix")
            listener.bind((host, port))
            host, port = listener.getsockname()
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"{host}:{port} cannot be had ({why}): choose --port") from error
    return f"{host}:{port}"


def places_for(device: str) -> list[Place]:
    """Choose devices as for a model: all GPUs, else the processor; or one."""
    places = devices.local()
    gpus, cpu = devices.gpus(places), [place for place in places if place.device.kind == "cpu"]
    if device == "auto":
        return gpus or cpu
    if device == "cpu":
        return cpu
    if not device.isdecimal() or int(device) >= len(gpus):
        numbers = f"0 to {len(gpus) - 1}" if gpus else "none"
        raise UsageError(f"--device is {device!r}; it must be auto, cpu or a GPU: {numbers}")
    return [gpus[int(device)]]
