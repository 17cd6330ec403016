"""The memory that a forward works in; MLX keeps as much of it for the next one.

Where MLX has no kernel without them, attention writes its scores down: at 32,768 tokens a piece of
512 with 24 heads takes 1.6 GB of them. The widths are those of MLX 0.32 for more than eight tokens
at once; for fewer the scores are small.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import replace

import mlx.core as mx

from localspec.interfaces.backend import Footprint, Options
from localspec_mlx.runner import WIDE

SIXTEEN, LOGIT = 2, 4  # bytes
TEXT_BATCH = 512  # tokens of whole texts that are read at once
ACTIVATIONS = 40  # numbers for each of a token's, alive at once or kept to be used again
FUSED_WIDTHS = frozenset((64, 72, 80, 96, 128))  # of heads, for which scores stay in the kernel
LATE_WIDTH, LATE_TOKENS = 256, 1024  # with matrix units the same from so many tokens on
SCORE_BYTES = 4  # scores in 16 bits, and what becomes of them beside
MATRIX_GENERATION = 17  # of Apple's GPUs, from which on they have matrix units: M5
GENERATION = re.compile(r"applegpu_g(\d+)")
MATRIX_SYSTEM = 26, 2  # macOS, from which on MLX uses them


def working(f: Footprint, options: Options, context: int) -> int:
    """Compute the working memory: of reading a prompt, of logits, and of copying a grown cache.

    Logits have the model's 16 bits on the device; those of short drafts are copied in 32.
    """
    activations = options.batch * f.embedding * ACTIVATIONS * SIXTEEN
    outputs = min(options.batch, options.slots * max(options.tentative + 1, WIDE))
    logits = (outputs * SIXTEEN + options.slots * WIDE * LOGIT) * f.vocabulary
    return scores_here(f, options, context) + activations + logits


def reading(f: Footprint, options: Options, context: int) -> int:
    """Compute the working memory of texts that are read as a whole: there are no logits."""
    activations = 2 * TEXT_BATCH * f.embedding * ACTIVATIONS * SIXTEEN  # padding included
    options = replace(options, batch=TEXT_BATCH, kv_type="auto")
    return scores_here(f, options, context) + activations


def has_matrix_units(info: Mapping[str, object], macos: str) -> bool:
    """Whether MLX uses the matrix units of a GPU, by what it says of that, and by the system."""
    generation = GENERATION.match(str(info.get("architecture", "")))
    system = tuple(int(part) for part in macos.split(".")[:2] if part.isdecimal())
    return bool(generation and int(generation[1]) >= MATRIX_GENERATION and system >= MATRIX_SYSTEM)


def score_bytes(f: Footprint, options: Options, context: int, *, matrix_units: bool) -> int:
    """Compute the bytes of scores of a GPU: one layer computes at a time, so the most of a layer.

    With matrix units a piece may still end in fewer tokens than their kernel takes.
    """
    rows, plain = options.batch, options.kv_type == "auto"
    if plain and f.head_width in FUSED_WIDTHS:
        return 0
    if plain and matrix_units and f.head_width == LATE_WIDTH:
        rows = min(rows, LATE_TOKENS - 1)
    window = min(f.window + options.batch, context) if f.window_layers else 0
    return f.heads * rows * (context if f.attention_layers else window) * SCORE_BYTES


def scores_here(f: Footprint, options: Options, context: int) -> int:
    """Compute the bytes of scores here; on a processor there are always scores, in 32 bits."""
    if mx.default_device() == mx.cpu:
        return 2 * f.heads * options.batch * context * SCORE_BYTES
    matrix_units = has_matrix_units(mx.device_info(), platform.mac_ver()[0])
    return score_bytes(f, options, context, matrix_units=matrix_units)
