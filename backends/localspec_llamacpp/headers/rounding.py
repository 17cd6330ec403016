"""Which weights llama.cpp multiplies alike on a CPU, in batches of any width."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence

from localspec_llamacpp.headers.metadata import Tensor

# As they lie in their file, and without tiles: repacked, Q4_K and Q2_K are added up in another
# order from four rows on, and in tiles all from Q2_K on, from eight rows.
ROUND_ALIKE = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"),
)
# Those that LocalSpec's products take, in rows of so many numbers at once, and in so many rows.
PACKED = {
    **dict.fromkeys(("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"), 256),
    **dict.fromkeys(("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4"), 32),
}
ROWS = 16
# Those that they take as they lie, in rows of so many numbers at once.
PLAIN = dict.fromkeys(("F32", "F16", "BF16"), 8)
TILES = "GGML_CPU_TILED_MM"  # llama.cpp reads it once, at its first product
INPUT, OUTPUT = "token_embd.weight", "output.weight"


def round_alike() -> None:
    """Multiply without tiles in this process, if nothing was multiplied in it before."""
    os.environ[TILES] = "0"


def uneven(tensors: Sequence[Tensor]) -> str:
    """Count the matrices of other types, as "12 tensors in Q6_K, 1 tensor in F32"; empty: none."""
    kinds = Counter(matrix.kind for matrix in matrices(tensors) if matrix.kind not in ROUND_ALIKE)
    counted = [
        (count, "tensor" if count == 1 else "tensors", kind) for kind, count in kinds.items()
    ]
    return ", ".join(f"{count:,} {noun} in {kind}" for count, noun, kind in counted)


def packable(tensor: Tensor) -> bool:
    """Return whether LocalSpec's products pack a matrix."""
    block = PACKED.get(tensor.kind)
    if block is None or len(tensor.shape) < 2:
        return False
    row, rows, *_ = tensor.shape
    return row % block == 0 and rows % ROWS == 0


def rounds_alike(tensor: Tensor) -> bool:
    """Return whether LocalSpec's products multiply by a matrix alike in any batch."""
    plain = PLAIN.get(tensor.kind)
    return packable(tensor) or (plain is not None and tensor.shape[0] % plain == 0)


def matrices(tensors: Sequence[Tensor]) -> list[Tensor]:
    """List the tensors that rows are multiplied by.

    Norms and biases are added; embeddings are only looked up, unless they are the output as well.
    """
    looked_up = {INPUT} if any(tensor.name == OUTPUT for tensor in tensors) else set()
    return [tensor for tensor in tensors if len(tensor.shape) > 1 and tensor.name not in looked_up]


def multiplied(tensors: Sequence[Tensor], active: float) -> Iterator[tuple[Tensor, float]]:
    """Yield the matrices, each with the share that a row is multiplied by: `active` of experts."""
    for matrix in matrices(tensors):
        yield matrix, active if len(matrix.shape) > 2 else 1.0
