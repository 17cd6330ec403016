"""Products of up to 16 rows by a Metal kernel of LocalSpec's own, few_rows.metal.

It was held against MLX's weights with emulated lanes, and never ran on a Mac. So it is used where
`--products own` asks for it, where it gives MLX's products, and where it was measured to be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, cast

import mlx.core as mx

MOST = 16  # rows
PARTS, OUTPUTS, BLOCK = 4, 16, 32  # as in the text
THREADS = 32 * PARTS
TEXT = Path(__file__).with_name("few_rows.metal")
FORMS = {"affine": 0, "mxfp4": 1, "nvfp4": 2}  # as in the text
AFFINE = [("affine", bits, group) for bits in (4, 8) for group in (32, 64, 128)]
KINDS = (*AFFINE, ("mxfp4", 4, 32), ("nvfp4", 4, 16))  # mode, bits, group size
CALL = """
    threadgroup float sums[PARTS * OUTPUTS * 8 * TILES];
    few_rows<Number, FORM, BITS, GROUP, TILES>(
        x, words, scales, biases, products, sums, x_shape[0], x_shape[1], words_shape[0],
        threadgroup_position_in_grid.x, simdgroup_index_in_threadgroup, thread_index_in_simdgroup);
"""

Kernel = Callable[..., Sequence[mx.array]]  # as mx.fast.metal_kernel makes them


@cache
def compiled() -> Kernel:
    """Make the kernel; it is compiled when it first runs."""
    inputs, header = ["x", "words", "scales", "biases"], TEXT.read_text(encoding="utf-8")
    kernel = mx.fast.metal_kernel("localspec_few_rows", inputs, ["products"], CALL, header)
    return cast(Kernel, kernel)


def serves(x: mx.array, words: mx.array, scales: mx.array, how: Mapping[str, Any]) -> bool:
    """Whether the kernel has these products."""
    inputs = x.shape[-1]
    return (
        prod(x.shape[:-1]) <= MOST
        and inputs % BLOCK == 0
        and inputs * len(words) < 1 << 32  # the kernel counts numbers in 32 bits
        and (how["mode"], how["bits"], how["group_size"]) in KINDS
        and (how["mode"] != "affine" or x.dtype == scales.dtype)
    )


def multiply(
    x: mx.array, weights: Sequence[mx.array | None], how: Mapping[str, Any], kernel: Kernel
) -> mx.array:
    """Multiply rows by a matrix: its words, scales and biases."""
    words, scales, biases = weights
    assert words is not None
    rows, outputs = x.reshape(-1, x.shape[-1]), len(words)
    template = {"Number": x.dtype, "FORM": FORMS[how["mode"]], "BITS": how["bits"]}
    template |= {"GROUP": how["group_size"], "TILES": -(-len(rows) // 8)}
    [products] = kernel(
        inputs=[rows, words, scales, scales if biases is None else biases],
        template=list(template.items()),
        grid=(-(-outputs // OUTPUTS) * THREADS, 1, 1),
        threadgroup=(THREADS, 1, 1),
        output_shapes=[(len(rows), outputs)],
        output_dtypes=[x.dtype],
    )
    return products.reshape(*x.shape[:-1], outputs)
