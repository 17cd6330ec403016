"""The caches that a model's definition asks for, and their counterparts here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.utils import tree_flatten
from mlx_lm.models.cache import ArraysCache, CacheList, KVCache, RotatingKVCache, make_prompt_cache

from localspec_mlx.layers import Foreign, Keys, Layer, Packing, States

# Rows of any widths, of equal widths, or none: padding enters the states of some architectures.
Sharing = Literal["ragged", "even", "alone"]
ROUND = 64  # cells of a windowed layer are a multiple of this


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A model, and the way to make one slot's caches."""

    model: Module
    fresh: Callable[[], list[Layer]]
    nesting: tuple[int, ...]  # how many of those each cache is made of; 0: it is one, bare
    windows: frozenset[tuple[int, int]]  # tokens a layer looks back on, and its cells
    recurrent: bool  # tokens are taken back by returning to a mark
    own: bool  # the caches are ours
    sharing: Sharing = "alone"  # which rows may share a run

    @property
    def signature(self) -> str:
        """Return a sum of the names, shapes and kinds of all weights."""
        weights: Any = tree_flatten(self.model.parameters())  # type: ignore[no-untyped-call]
        forms = [(name, array.shape, str(array.dtype)) for name, array in weights]
        return sha256(repr(forms).encode()).hexdigest()

    def run(self, tokens: mx.array, layers: Sequence[Layer]) -> mx.array:
        logits: mx.array = self.model(tokens, cache=self.caches(layers))
        return logits

    def run_embeddings(self, embeddings: mx.array, layers: Sequence[Layer]) -> mx.array:
        """Read embeddings [width, numbers] of one row in place of tokens."""
        blank = mx.zeros((1, len(embeddings)), mx.int32)
        caches = self.caches(layers)
        logits: mx.array = self.model(blank, cache=caches, input_embeddings=embeddings[None])
        return logits

    def caches(self, layers: Sequence[Layer]) -> list[object]:
        """Arrange layers as the model's definition expects its caches."""
        faces = iter([layer.face() for layer in layers])
        return [
            tuple(next(faces) for _ in range(count)) if count else next(faces)
            for count in self.nesting
        ]

    def shared(self, sharing: Sharing) -> Blueprint:
        return replace(self, sharing=sharing)


def native(model: Module) -> Blueprint:
    """Build with mlx-lm's own caches: always right, for one row at a time."""

    def fresh() -> list[Layer]:
        return [Foreign(cache) for cache in make_prompt_cache(model)]

    return Blueprint(model, fresh, (0,) * len(fresh()), frozenset(), recurrent=True, own=False)


def own(model: Module, slack: int, packing: Packing | None = None) -> Blueprint | None:
    """Build with ours, `slack` cells beyond each window; None if a cache has no counterpart."""
    caches = make_prompt_cache(model)
    parts = [list(cache.caches) if type(cache) is CacheList else [cache] for cache in caches]
    flat = [part for inner in parts for part in inner]
    if not all(map(has_counterpart, flat)):
        return None
    sizes = {part.max_size for part in flat if type(part) is RotatingKVCache}
    return Blueprint(
        model,
        lambda: [counterpart(part, slack, packing) for part in flat],
        tuple(len(cache.caches) if type(cache) is CacheList else 0 for cache in caches),
        frozenset((size, cells(size, slack)) for size in sizes),
        recurrent=any(type(part) is ArraysCache for part in flat),
        own=True,
    )


def has_counterpart(cache: Any) -> bool:
    kind = type(cache)
    return kind in (KVCache, ArraysCache) or (kind is RotatingKVCache and cache.keep == 0)


def counterpart(cache: Any, slack: int, packing: Packing | None) -> Layer:
    if type(cache) is ArraysCache:
        return States(len(cache.cache))
    if type(cache) is RotatingKVCache:
        return Keys(cache.max_size, cells(cache.max_size, slack), packing)
    return Keys(packing=packing)


def cells(window: int, slack: int) -> int:
    """Count cells for a window and the slack beyond it."""
    return -(-(window + slack) // ROUND) * ROUND
