"""The choice of slots to exchange, so that those of one batch are neighbours in llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence

MOST_BYTES = 128 << 20  # moved at once; llama.cpp saves and restores about 1 GB/s


def exchanges(
    active: Sequence[int], ids: Sequence[int], sizes: Sequence[int]
) -> list[tuple[int, int]]:
    """Pair slots of the batch that stand apart with slots that leave gaps between the others.

    `ids` is the place of each slot in llama.cpp's order, `sizes` the bytes that each holds.
    """
    places = {ids[slot]: slot for slot in range(len(sizes))}
    taken = {ids[slot] for slot in active}
    first = max(range(len(sizes) - len(taken) + 1), key=lambda at: _inside(taken, at))
    window = range(first, first + len(taken))
    outside = sorted((places[at] for at in taken if at not in window), key=lambda s: sizes[s])
    gaps = sorted((places[at] for at in window if at not in taken), key=lambda s: sizes[s])
    pairs, moved = [], 0
    for slot, gap in zip(outside, gaps, strict=True):
        moved += sizes[slot] + sizes[gap]
        if moved > MOST_BYTES:
            break
        pairs.append((slot, gap))
    return pairs


def _inside(taken: set[int], first: int) -> int:
    """Count the taken places in a window of as many that begins at `first`."""
    return sum(first <= at < first + len(taken) for at in taken)
