"""A rehearsal of loading an MLX folder, by its definition's caches and the way MLX works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer
from localspec.interfaces.backend import (
    MAX_HEAD_LAG,
    TEXT_CONTEXT,
    Footprint,
    Needs,
    Options,
    Rehearsal,
)
from localspec_mlx.blueprint import cells
from localspec_mlx.chain import LOOK
from localspec_mlx.folder import config as configuration
from localspec_mlx.folder import drafters, shards
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.pictures import is_beside_text
from localspec_mlx.folder.tokenizer import load_tokenizer
from localspec_mlx.layers import STEP
from localspec_mlx.loading import BITS, check, context, slack
from localspec_mlx.slots import ANCHORS
from localspec_mlx.towers.loading import tower_bytes, with_room
from localspec_mlx.working import LOGIT, SIXTEEN, reading, working

GROUP_BITS = 0.5  # of a quantised number, for the scale and the bias of its group
MARKS = 2  # of a recurrent slot while drafts are verified


@contextmanager
def rehearse(path: Path) -> Iterator[Rehearsal]:
    yield MlxRehearsal(inspect(path))


@dataclass(frozen=True)
class MlxRehearsal:
    footprint: Footprint

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.footprint.path, self.footprint.vocabulary)

    def needs(self, options: Options) -> Needs:
        check(options)
        f = self.footprint
        if f.pooling:
            texts, computing = of_texts(f, options, context(f, options))
            return Needs(f.weight_bytes, texts, computing, f.layers)
        options = with_room(f.path, options)
        head = described_head(f, options.head) if options.head else None
        computing, texts = working(f, options, context(f, options)), 0
        if options.pooling:  # both compute in turns
            tokens = min(TEXT_CONTEXT, context(f, options))
            texts, beside = of_texts(f, options, tokens)
            computing = max(computing, beside)
        return Needs(
            weights=share(f, options.members),
            cache=options.slots * kept(f, options) // options.members + texts,
            working=computing + (drafting(f, options) if head else 0),
            layers=f.layers,
            head=head_bytes(f, head, options) if head else 0,
            projector=tower_bytes(f.path) if options.projector else 0,
        )


def share(f: Footprint, members: int) -> int:
    """Count the bytes of one member's weights: layers are divided, what lies outside is not."""
    if members < 2:
        return f.weight_bytes
    sizes = {n: size for n, size in shards.read(f.path).sizes.items() if not is_beside_text(n)}
    outside = sum(size for name, size in sizes.items() if ".layers." not in name)
    return outside + (f.weight_bytes - outside) // members


def described_head(f: Footprint, path: Path) -> Footprint:
    """Describe the head in a folder of its own, or the one inside the model's."""
    if path != f.path:
        return inspect(path)
    if not f.drafting_layers:
        raise UsageError(f"{path.name} has no drafting head (MTP) inside")
    inside = drafters.inside(configuration.read(path), shards.read(path))
    return replace(f, weight_bytes=inside.bytes, layers=inside.layers)


def head_bytes(f: Footprint, head: Footprint, options: Options) -> int:
    """Compute the bytes that a head adds; layers of its target's that draft are there already."""
    if head.drafter == drafters.LAYERSKIP:
        return 0
    return head.weight_bytes + head_kept(f, head, options)


def head_kept(f: Footprint, head: Footprint, options: Options) -> int:
    """Compute the bytes that a head keeps in all slots, if it does not look at its target's keys.

    Qwen's layers are like those of their target.
    """
    whole = -(-context(f, options) // STEP) * STEP
    token_bytes = head.layers * head.kv_bytes_per_token
    if head.architecture in drafters.OF_QWEN or head.path == f.path:
        token_bytes = head.layers * f.kv_bytes_per_token // max(f.attention_layers, 1)
    reads = f.embedding * (drafters.layers_read(head.path) if head.drafter else 1)
    states = (ANCHORS + MAX_HEAD_LAG + options.tentative) * reads * SIXTEEN
    return options.slots * (whole * token_bytes + states)


def drafting(f: Footprint, options: Options) -> int:
    """Compute the working memory of drafts: logits, and states that are handed on."""
    logits = LOOK * options.slots * f.vocabulary * (SIXTEEN + LOGIT)
    return logits + 2 * options.batch * f.embedding * SIXTEEN


def of_texts(f: Footprint, options: Options, tokens: int) -> tuple[int, int]:
    """Compute the bytes of the longest text's keys and values, and of reading texts as a whole."""
    one = replace(options, context=tokens, kv_type="auto")
    return kept(f, one), reading(f, one, tokens)


def kept(f: Footprint, options: Options) -> int:
    """Compute the bytes that one slot keeps when it is full."""
    whole = -(-context(f, options) // STEP) * STEP
    window = min(cells(f.window, slack(options)), whole) if f.window else 0
    numbers = whole * f.kv_bytes_per_token + window * f.window_bytes_per_token
    if options.kv_type in BITS:
        numbers = round(numbers * (BITS[options.kv_type] + GROUP_BITS) / 16)
    return numbers + f.state_bytes * (1 + ANCHORS + MARKS)
