"""A trial, once when a model is loaded, of how it may be run.

Nothing is taken on trust about a definition that was written for other caches: short texts must
get the logits that mlx-lm's own caches give, a text at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from numpy.typing import NDArray

from localspec.base.errors import ModelFileError, UsageError
from localspec.base.tokens import Tokens, tokens_of
from localspec.interfaces.backend import Row
from localspec_mlx.blueprint import Blueprint, Sharing, native, own
from localspec_mlx.layers import Packing
from localspec_mlx.runner import Runner

# Run by run, how many tokens each of two texts brings: alone, then unequal, then equal.
SCRIPT: Sequence[dict[int, int]] = ({0: 3}, {0: 2, 1: 3}, {0: 1, 1: 1})
GROUPS = (64, 32)  # numbers that share a scale
FAR = 0.1  # apart, as a share of how far logits deviate; rounding brings 0.02, a wrong token 1

Figures = NDArray[np.float32]


def proven(model: Module, slack: int, slots: int, bits: int | None = None) -> Blueprint:
    """Find the best way to run a model that is right; keys and values in `bits`, if given."""
    try:
        vocabulary = width(model)
        truth = logits(native(model), vocabulary)
    except Exception as error:
        raise ModelFileError(f"mlx-lm cannot run this model: {error}") from error
    plain = own(model, slack)
    if plain is None or not agrees(plain, vocabulary, truth):
        if bits:
            raise UsageError("this model's own kind of cache cannot be quantised: leave --kv-type")
        return native(model)
    ways: tuple[Sharing, ...] = ("ragged", "even") if slots > 1 else ()
    fit = (way for way in ways if agrees(plain.shared(way), vocabulary, truth))
    blueprint = packed(model, slack, bits, vocabulary) if bits else plain
    return blueprint.shared(next(fit, "alone"))


def packed(model: Module, slack: int, bits: int, vocabulary: int) -> Blueprint:
    """Build with keys and values in `bits`, in groups as large as their widths allow."""
    reason: Exception | None = None
    for size in GROUPS:
        blueprint = own(model, slack, Packing(bits, size))
        try:
            if blueprint:
                logits(blueprint, vocabulary)
                return blueprint
        # A width it does not divide, or attention that cannot.
        except (TypeError, ValueError) as error:
            reason = error
    raise UsageError(f"its keys and values cannot be quantised: {reason}: omit --kv-type")


def width(model: Module) -> int:
    """Find how many logits a token gets, without evaluating anything."""
    blueprint = native(model)
    shape: tuple[int, ...] = blueprint.run(mx.zeros((1, 1), mx.int32), blueprint.fresh()).shape
    return shape[-1]


def agrees(blueprint: Blueprint, vocabulary: int, truth: Figures) -> bool:
    try:
        ours = logits(blueprint, vocabulary)
    except Exception:  # a definition may choke on a cache in any way
        return False
    apart = np.abs(ours - truth).mean(axis=-1)
    return bool((apart <= FAR * truth.std(axis=-1)).all())


def logits(blueprint: Blueprint, vocabulary: int) -> Figures:
    """Compute the logits of the last token of each text in each run."""
    runner = Runner(blueprint, len(SCRIPT[-1]), vocabulary)
    random = np.random.default_rng(0)
    texts = [tokens_of(random.integers(0, vocabulary, 6).tolist()) for _ in SCRIPT[-1]]
    rows = []
    for brought in SCRIPT:
        rows.append(runner.run([row(runner, texts, slot, brought[slot]) for slot in brought]))
        mx.eval(rows[-1], list(runner.slots.arrays(list(brought))))
    return np.array(mx.concatenate(rows))


def row(runner: Runner, texts: Sequence[Tokens], slot: int, count: int) -> Row:
    start = runner.slots.length(slot)
    return Row(slot, texts[slot][start : start + count])
