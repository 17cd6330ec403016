"""Patches of pictures, and the tensors of towers, as all towers have them."""

from __future__ import annotations

from collections.abc import Mapping

import mlx.core as mx

from localspec_mlx.folder.pictures import is_of_pictures


def averaged(states: mx.array, side: int) -> mx.array:
    """Average squares of states [down, across, numbers], `side` of them wide and high."""
    down, across, numbers = states.shape
    squares = states.reshape(down // side, side, across // side, side, numbers)
    return squares.mean((1, 3)).flatten(0, 1)


def heads_apart(states: mx.array, heads: int) -> mx.array:
    """Part states [rows, patches, numbers] into heads [rows, heads, patches, numbers]."""
    rows, patches, _ = states.shape
    return states.reshape(rows, patches, heads, -1).transpose(0, 2, 1, 3)


def tensors_of_pictures(weights: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Choose the tensors of a tower, by the names that conversions give them."""
    return {
        name.removeprefix("model."): array
        for name, array in weights.items()
        if is_of_pictures(name)
    }
