"""The last graph that was sent to each device of a worker."""

from __future__ import annotations

import ctypes

from localspec_llamacpp import devices, ggml, remote

RUN: set[int] = set()  # contexts in use that ran a graph since the last one was forgotten
SIZES = (ctypes.c_size_t(1), ctypes.c_bool(False))  # of a graph: nodes, and no gradients


def forget() -> None:
    """Have llama.cpp send its next graph whole to each worker, after memory of any was freed.

    A worker then forgets the graphs that it has run. llama.cpp does not know: it asks for the last
    one again by a word, and ends the process. So a graph that does nothing is made the last one.
    """
    if not RUN or not remote.CONNECTED:
        return
    RUN.clear()
    held = {worker for worker in remote.CONNECTED if remote.held(worker)}
    for pointer in devices.pointers():
        if devices.worker_of(pointer) in held:
            run_nothing(pointer)


def run_nothing(device: int) -> None:
    """Run a graph of one tensor that is not computed and has no memory."""
    backend = ggml.pointer("ggml_backend_dev_init", ctypes.c_void_p(device), None)
    graph_bytes = ggml.call("ggml_graph_overhead_custom", ctypes.c_size_t, *SIZES)
    try:
        with ggml.tensor(1, graph_bytes) as (context, nothing):
            graph = ggml.pointer("ggml_new_graph_custom", context, *SIZES)
            ggml.call("ggml_graph_add_node", None, graph, nothing)
            ggml.call("ggml_backend_graph_compute", ctypes.c_int, backend, graph)
    finally:
        ggml.call("ggml_backend_free", None, backend)
