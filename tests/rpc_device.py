"""Devices that are not the CPU: llama.cpp's RPC server over memory of a given size.

`python -m tests.rpc_device PORT BYTES...` serves a device of so many bytes each. With WIDTH in the
environment it is a bad driver: attention to more tokens at once than that ends the process, and a
new one takes its place, as after a crash of an application the driver lives on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from localspec_llamacpp import ggml

WORD = ctypes.sizeof(ctypes.c_void_p)
DEVICE_WORDS, BUFFER_TYPE_WORDS = 17, 8
GET_MEMORY, INIT_BACKEND, GET_BUFFER_TYPE = 2, 5, 6  # of ggml_backend_device_i
ALLOC_BUFFER, FREE_BUFFER, BUFFER_SIZE = 1, 0, 13  # words of a buffer type and of a buffer
GRAPH_COMPUTE, BACKEND_DEVICE = 13, 17  # words of a backend
TYPE, OP, SIZES = 4, 80, 16  # bytes into a tensor
WIDTH = "LOCALSPEC_TEST_WIDTH"

Words = ctypes.POINTER(ctypes.c_void_p)
Pointer = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
Memory = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)
)
Init = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
Alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Compute = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def words(address: int):
    return ctypes.cast(address, Words)


def copied(address: int, count: int):
    made = (ctypes.c_void_p * count)(*words(address)[:count])
    return ctypes.addressof(made), made


def call(name: str, result, *arguments):
    function = ggml.library("ggml-base" if name != "ggml_backend_dev_by_type" else "ggml")[name]
    function.restype = result
    return function(*arguments)


class BoundedDevice:
    """The processor as a device whose memory is counted, and ends."""

    def __init__(self, size: int, width: int | None) -> None:
        self.size, self.taken, self.width = size, 0, width
        cpu = call("ggml_backend_dev_by_type", ctypes.c_void_p, ctypes.c_int(0))
        self._cpu, self._type = cpu, call("ggml_backend_dev_buffer_type", ctypes.c_void_p, vp(cpu))
        self.address, self._words = copied(cpu, DEVICE_WORDS)
        buffers, self._buffers = copied(self._type, BUFFER_TYPE_WORDS)
        self._alloc, self._init = Alloc(self._buffers[ALLOC_BUFFER]), Init(words(cpu)[INIT_BACKEND])
        self._free = None
        self._calls = {
            GET_MEMORY: Memory(self._tell),
            INIT_BACKEND: Init(self._begin),
            GET_BUFFER_TYPE: Pointer(lambda _: buffers),
        }
        for at, function in self._calls.items():
            self._words[at] = ctypes.cast(function, ctypes.c_void_p)
        self._take, self._give = Alloc(self._allocate), Free(self._release)
        self._buffers[ALLOC_BUFFER] = ctypes.cast(self._take, ctypes.c_void_p)

    def _tell(self, _, free, total) -> None:
        free[0], total[0] = self.size - self.taken, self.size

    def _allocate(self, _, size):
        if self.taken + size > self.size:
            return None
        buffer = self._alloc(self._type, size)
        self._free = self._free or Free(words(buffer)[FREE_BUFFER])
        words(buffer)[FREE_BUFFER] = ctypes.cast(self._give, ctypes.c_void_p)
        self.taken += words(buffer)[BUFFER_SIZE] or 0
        return buffer

    def _release(self, buffer) -> None:
        self.taken -= words(buffer)[BUFFER_SIZE] or 0
        self._free(buffer)

    def _begin(self, _, parameters):
        backend = self._init(self._cpu, parameters)
        words(backend)[BACKEND_DEVICE] = self.address
        if self.width is not None:
            self._run = Compute(words(backend)[GRAPH_COMPUTE])
            self._watched = Compute(self._compute)
            words(backend)[GRAPH_COMPUTE] = ctypes.cast(self._watched, ctypes.c_void_p)
        return backend

    def _compute(self, backend, graph):
        if any(tokens > self.width for tokens in attended(graph)):
            os.kill(os.getpid(), signal.SIGKILL)
        return self._run(backend, graph)


def attended(graph):
    """The tokens of each flash attention in a graph."""
    for at in range(call("ggml_graph_n_nodes", ctypes.c_int, vp(graph))):
        node = call("ggml_graph_node", ctypes.c_void_p, vp(graph), ctypes.c_int(at))
        if call("ggml_op_desc", ctypes.c_char_p, vp(node)) == b"FLASH_ATTN_EXT":
            yield ctypes.cast(node + SIZES, ctypes.POINTER(ctypes.c_int64))[2]


def vp(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def serve(port: int, sizes: list[int], width: int | None) -> None:
    devices = [BoundedDevice(size, width) for size in sizes]
    listed = (ctypes.c_void_p * len(devices))(*[device.address for device in devices])
    start = ggml.library("ggml-rpc").ggml_backend_rpc_start_server
    start.restype = None
    endpoint = f"127.0.0.1:{port}".encode()
    start(endpoint, None, ctypes.c_size_t(1), ctypes.c_size_t(len(devices)), listed)


def main() -> None:
    port, *sizes = map(int, sys.argv[1:])
    width = os.environ.get(WIDTH)
    while width is not None and (child := os.fork()):
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            return
    serve(port, sizes, int(width) if width else None)


if __name__ == "__main__":
    main()
