"""Numbers in float16 where a model was made for bfloat16, which the GPUs of M1 and M2 lack.

Both have 16 bits; float16 is finer, and ends at 65,504. A weight beyond that is refused, and so is
a model whose numbers grow beyond it while it reads a short text.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Row
from localspec_mlx.blueprint import Blueprint
from localspec_mlx.runner import Runner

LARGEST = 65_504.0
SAMPLE = "The quick brown fox jumps over the lazy dog, 1234567890 times."
ADVICE = "omit --compute float16"
NOTICE = "computes in float16 and was made for bfloat16: check it by localspec prove"


def convert(model: Module, name: str) -> int:
    """Convert all brain floats of a model; return how many arrays were some."""
    weights: Any = tree_flatten(model.parameters())  # type: ignore[no-untyped-call]
    brain_floats = {key: array for key, array in weights if array.dtype == mx.bfloat16}
    del weights
    count = len(brain_floats)
    while brain_floats:  # one at a time, as both copies of all might not fit
        key, array = brain_floats.popitem()
        half, highest = array.astype(mx.float16), mx.abs(array).max()
        mx.eval(half, highest)
        if not float(highest) <= LARGEST:
            number = f"{key} of {name} has {float(highest):,.0f}"
            raise UsageError(f"{number}, and float16 ends at {LARGEST:,.0f}: {ADVICE}")
        model.load_weights([(key, half)], strict=False)
    return count


def require_finite(blueprint: Blueprint, tokenizer: Tokenizer, name: str) -> None:
    """Refuse a model whose numbers overflow on a short text, with its first token if it has one."""
    begin = [] if tokenizer.bos is None else [tokenizer.bos]
    text = tokens_of([*begin, *tokenizer.encode(SAMPLE)])
    logits = Runner(blueprint, 1, tokenizer.size).run([Row(0, text, len(text))])
    if not mx.isfinite(logits).all():
        raise UsageError(f"numbers of {name} overflow in float16: {ADVICE}")
