"""How long drafts may be where the depth is left open, by the memory that their logits take."""

from __future__ import annotations

from dataclasses import replace

from localspec.interfaces.backend import BATCH_MARGIN, MAX_TENTATIVE, Options
from localspec.running.memory.planner import machine_within
from localspec.running.models.trial import Examined
from localspec.running.runtime.loading_options import Loading

# Tokens of the longest draft: the first that fits, else the last. A processor takes as long for
# a token of 128 at once as for one of 512.
OPEN_DEPTHS = MAX_TENTATIVE, 256, 128, 64, 32, 16
MAX_LOGIT_BYTES = 256 << 20  # of a forward; an engine holds them up to twice
LOGIT_SHARE = 1 / 32  # of the memory that may be used
LOGIT_BYTES = 4


def with_long_drafts(loading: Loading, target: Examined) -> Options:
    """Make room for long drafts, where the depth is left open."""
    options = loading.options
    if loading.depth is not None or options.tentative != Options().tentative:
        return options
    memory = machine_within(target.engine.devices, loading.limits).available
    return replace(options, tentative=open_depth(options, target.footprint().vocabulary, memory))


def open_depth(options: Options, vocabulary: int, memory: int) -> int:
    """Choose the longest draft whose logits take a small part of memory, in all slots together."""
    most = min(MAX_LOGIT_BYTES, memory * LOGIT_SHARE)
    depths = [min(depth, options.batch - BATCH_MARGIN) for depth in OPEN_DEPTHS]
    for depth in depths:
        rows = min(options.slots * (depth + 1), options.batch)
        if rows * vocabulary * LOGIT_BYTES <= most:
            return depth
    return depths[-1]
