"""Parts of later kinds of DFlash: tables of what follows what, and convolutions within a block.

DSpark adds to a place's logits what its table has after the token before it. DFlash 2 does so
among the likeliest tokens alone, by the state of the place; and its layers mix places of a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear

from localspec_mlx.heads.target import spread


class Markov(Module):
    """DSpark's table, of low rank."""

    def __init__(self, tokens: int, rank: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.markov_w1 = Embedding(tokens, rank)
        self.markov_w2 = Linear(rank, tokens, bias=False)

    def before(self, tokens: mx.array) -> mx.array:
        """Look up what matters of the tokens before."""
        factors: mx.array = self.markov_w1(tokens)
        return factors

    def adjusted(self, logits: mx.array, states: mx.array, before: mx.array) -> mx.array:
        adjusted: mx.array = logits + self.markov_w2(before)
        return adjusted


class Selector(Module):
    """DFlash 2's choice among the likeliest tokens."""

    def __init__(self, tokens: int, width: int, rank: int, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.predecessor_codebook = Embedding(tokens, rank)
        self.successor_codebook = Embedding(tokens, rank)
        self.hidden_projection = Linear(width, rank, bias=False)
        self._most = most

    def before(self, tokens: mx.array) -> mx.array:
        factors: mx.array = self.predecessor_codebook(tokens)
        return factors

    def adjusted(self, logits: mx.array, states: mx.array, before: mx.array) -> mx.array:
        chosen = mx.argpartition(logits, kth=-self._most, axis=-1)[..., -self._most :]
        factors = (before * self.hidden_projection(states))[..., None]
        added = (self.successor_codebook(chosen) @ factors).squeeze(-1)
        adjusted = mx.take_along_axis(logits, chosen, axis=-1) + added
        return spread(adjusted, chosen, logits.shape[-1])


class BlockConvolution(Module):
    """Mixes each place of a block with some before it, ahead of a sublayer and after it."""

    def __init__(self, width: int, length: int, group: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.base_kernel = mx.zeros((2, length, width))
        self.kernel_projection = Linear(width, 2 * length * (width // group), bias=False)
        self._group = group

    def kernels(self, x: mx.array) -> mx.array:
        """Compute both kernels of each place: [rows, size, 2, length, width]."""
        _, length, width = self.base_kernel.shape
        shape = (*x.shape[:-1], 2, length, width // self._group)
        moving = self.kernel_projection(x).reshape(shape)
        kernels: mx.array = self.base_kernel.astype(x.dtype) + mx.repeat(
            moving, self._group, axis=-1
        )
        return kernels

    @staticmethod
    def mixed(x: mx.array, kernels: mx.array) -> mx.array:
        """Sum each place and those before it, by its kernel [rows, size, length, width]."""
        size = x.shape[1]
        return sum(
            (
                kernels[:, :, back] * mx.pad(x, [(0, 0), (back, 0), (0, 0)])[:, :size]
                for back in range(kernels.shape[2])
            ),
            mx.zeros_like(x),
        )


def successors(settings: Mapping[str, Any], tokens: int, width: int) -> tuple[str, Module] | None:
    """Make the table that a head has, and name its weights."""
    if "selector_rank" in settings:
        rank, most = settings["selector_rank"], settings["selector_top_k"]
        return "candidate_selector", Selector(tokens, width, rank, most)
    if "markov_rank" in settings:
        return "markov_head", Markov(tokens, settings["markov_rank"])
    return None
