"""The caches of a model, measured on a run that is laid out but never evaluated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from localspec_mlx.folder.drafters import KV_BYTES

SHORT, LONG = 2047, 4095  # tokens by whose difference an unknown cache is known
# Look at their numbers while they run, so only their first layer is seen.
LOOKING = frozenset({"dbrx"})


@dataclass(frozen=True, slots=True)
class CacheUse:
    """The memory of one cache in one slot."""

    token_bytes: int = 0  # of keys and values, 16 bits each
    window: int = 0  # tokens of which; 0: all
    state_bytes: int = 0
    heads: int = 0
    head_width: int = 0  # numbers of a head's key or value, the wider of both; 0: not seen


@dataclass(frozen=True, slots=True)
class SlotUse:
    """The memory of all caches of a model in one slot."""

    parts: tuple[CacheUse, ...]
    vocabulary: int  # width of the logits; 0: not seen

    @property
    def token_bytes(self) -> int:
        return sum(part.token_bytes for part in self.parts if not part.window)

    @property
    def window(self) -> int:
        return max(part.window for part in self.parts)

    @property
    def window_bytes(self) -> int:
        """The bytes of a token in all windows; shorter ones count for less."""
        total = sum(part.token_bytes * part.window for part in self.parts)
        return -(-total // self.window) if self.window else 0

    @property
    def state_bytes(self) -> int:
        return sum(part.state_bytes for part in self.parts)

    @property
    def attention_layers(self) -> int:
        return sum(part.token_bytes > 0 and not part.window for part in self.parts)

    @property
    def window_layers(self) -> int:
        return sum(part.token_bytes > 0 and part.window > 0 for part in self.parts)

    @property
    def recurrent_layers(self) -> int:
        return sum(part.state_bytes > 0 for part in self.parts)

    @property
    def heads(self) -> int:
        return max(part.heads for part in self.parts)

    @property
    def head_width(self) -> int:
        return max(part.head_width for part in self.parts)


def kept(model: Module, model_type: str) -> SlotUse:
    """Measure what a slot keeps of its past."""
    caches, width = laid_out(model, 1, model_type in LOOKING)
    parts = [cache_use(cache) for cache in caches]
    if model_type in LOOKING:
        parts = parts[:1] * len(parts)
    if None in parts:
        shorter, longer = (laid_out(model, tokens)[0] for tokens in (SHORT, LONG))
        grown = [growth(*pair) for pair in zip(shorter, longer, strict=True)]
        parts = [measured or other for measured, other in zip(parts, grown, strict=True)]
    return SlotUse(tuple(part for part in parts if part), width)


def laid_out(model: Module, tokens: int, may_fail: bool = False) -> tuple[list[Any], int]:
    """Lay out the caches after `tokens` tokens; return them and the width of the logits."""
    caches: list[Any] = make_prompt_cache(model)
    width = 0

    def run(inputs: mx.array) -> mx.array:
        nonlocal width
        width = model(inputs, cache=caches).shape[-1]
        return inputs

    try:
        # What is being compiled cannot be worked out: a model that tries fails, and reads nothing.
        mx.compile(run)(mx.zeros((1, tokens), mx.int32))
    except ValueError:
        if not may_fail:
            raise
    return list(flat(caches)), width


def flat(caches: Sequence[Any]) -> Iterator[Any]:
    for cache in caches:
        if isinstance(cache, CacheList):
            yield from flat(cache.caches)
        else:
            yield cache


def cache_use(cache: Any) -> CacheUse | None:
    """Measure a cache by the shapes of its arrays; None if its kind is not known."""
    match cache:
        case ArraysCache():
            return CacheUse(state_bytes=cache.nbytes)
        case RotatingKVCache():
            return windowed(cache, cache.max_size)
        case ChunkedKVCache():
            return windowed(cache, cache.chunk_size)
        case KVCache() | ConcatenateKVCache():
            return attention(cache)
    return None


def attention(cache: Any, window: int = 0) -> CacheUse:
    if cache.keys is None:
        return CacheUse()
    both = (cache.keys, cache.values)
    numbers = sum(array.size // array.shape[-2] for array in both)
    width = max(array.shape[-1] for array in both)
    return CacheUse(KV_BYTES * numbers, window, heads=cache.keys.shape[1], head_width=width)


def windowed(cache: Any, window: int) -> CacheUse:
    if not 1 <= window < 1 << 31:
        raise ValueError(f"a layer looks back on {window} tokens")
    return attention(cache, window)


def growth(shorter: Any, longer: Any) -> CacheUse:
    """Measure how it grows: the bytes of each token, and those for any length."""
    token_bytes = -(-(longer.nbytes - shorter.nbytes) // (LONG - SHORT))
    return CacheUse(
        token_bytes,
        state_bytes=max(0, longer.nbytes - token_bytes * LONG),
        heads=1 if token_bytes else 0,
    )
