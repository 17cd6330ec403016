"""Which weights llama.cpp multiplies alike on a CPU, in batches of any width."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from localspec_llamacpp.headers.metadata import Tensor

# As they lie in their file, and without tiles: repacked, Q4_K and Q2_K are added up in another
# order from four rows on, and in tiles all from Q2_K on, from eight rows.
ROUND_ALIKE = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
    *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"),
)
TILES = "GGML_CPU_TILED_MM"  # llama.cpp reads it once, at its first product
INPUT, OUTPUT = "token_embd.weight", "output.weight"


def round_alike() -> None:
    """Multiply without tiles in this process, if nothing was multiplied in it before."""
    os.environ[TILES] = "0"


def uneven(tensors: Sequence[Tensor]) -> str:
    """Count the matrices of other types, as "12 tensors in Q6_K, 1 tensor in F32"; empty: none.

    Norms and biases are added, not multiplied by rows; embeddings are only looked up, unless they
    are the output as well.
    """
    looked_up = {INPUT} if any(tensor.name == OUTPUT for tensor in tensors) else set()
    kinds = Counter(
        tensor.kind
        for tensor in tensors
        if len(tensor.shape) > 1 and tensor.kind not in ROUND_ALIKE and tensor.name not in looked_up
    )
    counted = [
        (count, "tensor" if count == 1 else "tensors", kind) for kind, count in kinds.items()
    ]
    return ", ".join(f"{count:,} {noun} in {kind}" for count, noun, kind in counted)
