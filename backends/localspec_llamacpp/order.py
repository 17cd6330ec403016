"""The order of slots in llama.cpp: which rows share a batch, and which slots change places."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from localspec.interfaces.backend import Row
from localspec_llamacpp.bindings.shape import ContextShape

MOST_BYTES = 128 << 20  # moved at once; llama.cpp saves and restores about 1 GB/s
BLOCK = 16  # tokens that a processor multiplies at once
TILE = 64  # tokens of a batch, from which on llama.cpp computes attention in tiles


def are_neighbours(places: Sequence[int]) -> bool:
    return max(places) - min(places) < len(places)


def batches(rows: Sequence[Row], shape: ContextShape, ids: Sequence[int]) -> list[Sequence[Row]]:
    """Group rows to be run together: on a CPU no long row of a prompt with short ones.

    In one pool, llama.cpp looks from 64 tokens on at the whole pool for each of them: 64 tokens
    and 7 others beside 2,100 of other texts took 182 ms, and 86 and 33 ms in batches of their own.
    Where each slot has a KV cache it runs as many tokens of every row as the shortest has, then the
    others: of 1 and 8 tokens 1 of both, then 7, in 49 ms in place of 41; of 16 beside three others
    15, which are no whole block, in 250 ms in place of 193. But short rows that would not be
    neighbours without the long ones stay with them.
    """
    widths = [len(row.tokens) for row in rows]
    if shape.watched and shape.cuts:  # states are seen in the order in which tokens are run
        by_width = sorted(rows, key=lambda row: len(row.tokens))
        return [list(alike) for _, alike in groupby(by_width, lambda row: len(row.tokens))]
    if not shape.apart or (shape.pooled and sum(widths) < TILE):
        return [rows]
    least = TILE // 2 if shape.pooled else BLOCK
    if len(rows) == 2 and not shape.pooled:
        least = min(max(widths), least)
    short = [row for row in rows if len(row.tokens) < least]
    if short and not shape.pooled and not are_neighbours([ids[row.slot] for row in short]):
        return [rows]
    long = [row for row in rows if len(row.tokens) >= least]
    return [batch for batch in (short, long) if batch]


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
