"""The kinds of drafting heads: what each reads of its target, and whether a file fits one.

A further kind is added to `KINDS`, under the architecture that its file names; `head_files.py`
opens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localspec.base.errors import ModelFileError
from localspec.interfaces.backend import Footprint
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.metadata import Header

TOKENS = "tokenizer.ggml.tokens"
DRAFTING = ".nextn."  # in the names of tensors of drafting blocks
TRUNK = "blk.0.attn_norm.weight"  # in every file that holds more than its drafting blocks


@dataclass(frozen=True, slots=True)
class HeadKind:
    """A kind of head in a file of its own, beside the target's."""

    proposer: str  # the name by which it drafts
    width: str = ""  # the key of the width of the target's hidden states
    shares: bool = False  # whether it looks into the target's keys and values, and has none


KINDS: Mapping[str, HeadKind] = {  # by architecture
    "eagle3": HeadKind("eagle3", "target_hidden_size"),
    "dflash": HeadKind("dflash", "embedding_length"),
    "gemma4-assistant": HeadKind("mtp", "embedding_length_out", shares=True),
}
BLOCKS = HeadKind("mtp", "embedding_length")  # of a model, in a file without its other layers


def drafter(header: Header) -> str:
    """Name the proposer that a file is for; empty: it is a model."""
    kind = _kind(header)
    return kind.proposer if kind else ""


def kind_of(header: Header) -> HeadKind:
    """Return the kind of a head by its file."""
    kind = _kind(header)
    if kind is None:
        architecture = header.text("general.architecture") or "unknown"
        header.refuse(f"({architecture}) is no drafting head: give it as a draft model")
    return kind


def _kind(header: Header) -> HeadKind | None:
    architecture = header.text("general.architecture") or "unknown"
    if architecture in KINDS:
        return KINDS[architecture]
    names = [tensor.name for tensor in header.tensors]
    return BLOCKS if any(DRAFTING in name for name in names) and TRUNK not in names else None


def layers_read(header: Header) -> tuple[int, ...]:
    """List the layers of the target whose inputs a head reads; none: it reads the last states."""
    return tuple(header.numbers(f"{header.text('general.architecture')}.target_layers"))


def require_fit(target: Footprint, path: Path) -> None:
    """Refuse a head that was made for another target, before an engine dies of it."""
    header = read(path)
    kind, architecture = kind_of(header), header.text("general.architecture")
    if kind is BLOCKS and architecture != target.architecture:
        raise misfit(target, path, f"has blocks of {architecture}, not {target.architecture}")
    if kind.width:
        _same(target, path, "hidden states", header.number(f"{architecture}.{kind.width}"))
    tokens = header.length(TOKENS)
    if tokens != target.vocabulary:
        raise misfit(target, path, f"{tokens:,} tokens, the model's {target.vocabulary:,}")
    last, layers = header.number(f"{architecture}.target_layers"), target.layers
    if last > layers:
        raise misfit(target, path, f"reads layer {last}, and the model has {layers}")


def _same(target: Footprint, path: Path, states: str, width: int) -> None:
    if width != target.embedding:
        numbers = f"{width:,} numbers, the model's {target.embedding:,}"
        raise misfit(target, path, f"is for {states} of {numbers}")


def misfit(target: Footprint, path: Path, why: str) -> ModelFileError:
    return ModelFileError(f"{path.name} was made for another model than {target.path.name}: {why}")
