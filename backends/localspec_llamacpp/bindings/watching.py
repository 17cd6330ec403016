"""What goes into single layers, copied while llama.cpp computes.

llama.cpp gives the inputs of layers of some architectures only, and ends the process if it is asked
for those of others. But it names every tensor that it computes, to whoever watches: 0.6 ms in each
forward of 24 layers (AMD EPYC), and a device stops at each that is copied.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llama_cpp.llama_cpp as lib
import numpy as np

from localspec.base.errors import ModelFileError
from localspec_llamacpp import ggml
from localspec_llamacpp.bindings.batch import Hidden

# By the names of files' architectures: whose layers' inputs llama.cpp gives.
LAYER_INPUTS = frozenset(
    (
        *("bailingmoe3", "deepseek4", "gemma4", "gpt-oss"),
        *("hunyuan-dense", "hunyuan_vl", "lfm2", "lfm2moe", "llama"),
        *("mimo2", "minimax-01", "minimax-m2", "muse-glimmer", "nanbeige", "nemotron_h"),
        *("nemotron_h_moe", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen4exp"),
    )
)
FIRST = ("embd", "inp_scaled")  # what goes into the first layer; the last of them that there is
NUMBER = 4  # bytes

_base = ggml.library("ggml-base")
_name, _bytes, _copy = (
    _base["ggml_get_name"],
    _base["ggml_nbytes"],
    _base["ggml_backend_tensor_get"],
)
_name.argtypes, _name.restype = [ctypes.c_void_p], ctypes.c_char_p
_bytes.argtypes, _bytes.restype = [ctypes.c_void_p], ctypes.c_size_t
_copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
_copy.restype = None


class Watch:
    """Copies the inputs of some layers of each batch, in the order of its tokens."""

    def __init__(self, width: int, rows: int) -> None:
        self.callback = lib.ggml_backend_sched_eval_callback(self._see)
        self._shape = rows, width
        self._layers = dict[int, Hidden]()
        self._names = dict[bytes, int]()
        self._ends = dict[bytes, int]()  # bytes of this batch that are copied

    def watch(self, layers: Sequence[int]) -> None:
        """Copy the inputs of these layers from now on."""
        self._layers = {layer: np.empty(self._shape, np.float32) for layer in layers}
        self._names = {
            name.encode(): layer
            for layer in layers
            for name in ([f"l_out-{layer - 1}"] if layer else FIRST)
        }

    def begin(self) -> None:
        """Begin a batch."""
        self._ends.clear()

    def states(self, layer: int, rows: int) -> Hidden:
        """Return what went into a layer in the newest batch; valid until the next one."""
        size = rows * self._shape[1] * NUMBER
        copied = [self._ends.get(name, 0) for name, at in self._names.items() if at == layer]
        if size not in copied:
            raise ModelFileError(f"llama.cpp computes nothing that goes into layer {layer} alone")
        return self._layers[layer][:rows]

    def _see(self, tensor: int, asks: bool, _: object) -> bool:
        """Return whether a tensor is to be seen; copy it when it is computed."""
        name = _name(tensor)
        if asks:
            return name in self._names
        states, end, size = self._layers[self._names[name]], self._ends.get(name, 0), _bytes(tensor)
        if end + size <= states.nbytes:
            _copy(tensor, states.ctypes.data + end, 0, size)
        self._ends[name] = end + size
        return True
