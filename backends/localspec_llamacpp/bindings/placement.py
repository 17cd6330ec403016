"""The devices that the layers of a model, and their experts, go to."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import llama_cpp.llama_cpp as lib

from localspec.interfaces.backend import BY_LAYER
from localspec_llamacpp import ggml

EXPERTS = rb"blk\.%d\.ffn_(up|down|gate|gate_up)_(ch|)exps"


class LayerPlacement(NamedTuple):
    """The last layers of a model, and the devices that take them."""

    layers: int  # -1: all
    devices: tuple[int, ...] = ()  # ggml's pointers, in the order of layers
    split: tuple[float, ...] = ()  # shares of the devices; none: by their free memory
    experts_on_host: int = 0  # the number of layers, the first ones, whose experts stay there
    huge_pages: bool = False  # for weights on the host, which are not mapped then
    packed: bool = True  # whether weights on the host may lie otherwise than in their file
    own_products: bool = True  # whether they are packed for LocalSpec's products, where there are
    split_mode: str = BY_LAYER  # what is divided among the devices
    load_mode: int = lib.LLAMA_LOAD_MODE_AUTO


HOST = LayerPlacement(0)


class Override(ctypes.Structure):
    """A pattern of tensors' names, and the type of buffers that those go to."""

    _fields_ = (("pattern", ctypes.c_char_p), ("buffers", ctypes.c_void_p))


def experts_stay(layers: int) -> ctypes.Array[Override]:
    """Let the experts of the first layers stay on the host, in a list that llama.cpp reads."""
    host = ggml.pointer("ggml_backend_cpu_buffer_type")
    rows = [Override(EXPERTS % layer, host) for layer in range(layers)]
    return (Override * (len(rows) + 1))(*rows)
