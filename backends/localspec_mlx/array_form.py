"""Arrays as bytes, for memory and files: JSON that describes them, and then each of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from localspec_mlx.host import Host

KINDS = {
    str(kind): kind
    for kind in (mx.bfloat16, mx.float16, mx.float32, mx.int32, mx.uint32, mx.int8, mx.uint8)
}
LENGTH = np.dtype("<i8")  # of the JSON; it comes first
Arrays = list[mx.array | None]  # of one layer


def pack(
    mark: Sequence[str | int], layers: Sequence[Arrays], most: int, host: Host
) -> NDArray[np.uint8] | None:
    """Copy arrays with a mark that says what they are, and let go of each then.

    None if that takes over `most` bytes.
    """
    forms = [[array if array is None else form(array) for array in layer] for layer in layers]
    head = json.dumps([*mark, forms]).encode()
    at = LENGTH.itemsize + len(head)
    total = at + sum(array.nbytes for layer in layers for array in layer if array is not None)
    if total > most:
        return None
    data = np.empty(total, np.uint8)
    data[:at] = np.frombuffer(np.array(len(head), LENGTH).tobytes() + head, np.uint8)
    for layer in layers:
        while layer:
            if (array := layer.pop(0)) is not None:
                data[at : at + array.nbytes] = host.read(array.reshape(-1).view(mx.uint8))
                at += array.nbytes
    return data


def form(array: mx.array) -> tuple[str, Sequence[int]]:
    return str(array.dtype), array.shape


def unpack(data: NDArray[np.uint8], mark: Sequence[str | int]) -> list[Arrays]:
    """Return what was packed with the same mark; a ValueError if there is no such thing."""
    at = LENGTH.itemsize
    at += int(data[:at].view(LENGTH).item())
    *saved_mark, forms = json.loads(data[LENGTH.itemsize : at].tobytes())
    if saved_mark != list(mark):
        raise ValueError("it was saved by another model, or of another text")
    layers: list[Arrays] = []
    for layer in forms:
        arrays: list[mx.array | None] = []
        for array_form in layer:
            if array_form is None:
                arrays.append(None)
                continue
            kind, shape = KINDS[array_form[0]], array_form[1]
            end = at + kind.size * int(np.prod(shape, dtype=np.int64))
            arrays.append(mx.array(data[at:end]).view(kind).reshape(shape))
            at = end
        layers.append(arrays)
    if at != len(data):
        raise ValueError(f"it has {len(data):,} bytes, not {at:,}")
    return layers
