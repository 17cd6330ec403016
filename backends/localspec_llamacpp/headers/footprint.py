"""Say what a GGUF file holds, by its header alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from localspec.interfaces.backend import Footprint
from localspec_llamacpp.bindings import products
from localspec_llamacpp.bindings.library import FILE_TYPES, POOLINGS
from localspec_llamacpp.head_kinds import DRAFTING, drafter
from localspec_llamacpp.headers.adapter import KIND as ADAPTER
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.metadata import FLOAT32, FORMATS, Header
from localspec_llamacpp.headers.parts import whole
from localspec_llamacpp.headers.rounding import matrices, multiplied, rounds_alike, uneven

MOST_TOKENS = 1 << 31  # of a context
GUESSED = 1024  # added to a file type that a converter was not sure of
TOKENS = "tokenizer.ggml.tokens"
MASK = "tokenizer.ggml.mask_token_id"
POSITIONS = "position_embd.weight"  # one row for each position that was learned
PROJECTOR = "clip"  # the architecture of every projector, whatever is inside
SAMPLING = {  # the keys of what is advised, after `general.sampling.`, by names of `Sampling`
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "repetition": "penalty_repeat",
    "penalty_window": "penalty_last_n",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
}
OTHER_TYPES = {
    ADAPTER: "a LoRA adapter, not a model: give the model that it is for, and this as --adapter",
    "mmproj": "a vision projector, not a model: give the model it belongs to",
    "imatrix": "an importance matrix, not a model: give the model it belongs to",
}


def inspect(path: Path) -> Footprint:
    """Read a model's header; the details of the architecture are left to llama.cpp.

    A file that holds a vocabulary only has no `weight_bytes`; one cut into parts is given as its
    first, and counted whole.
    """
    return described(whole(read(path)))


def described(header: Header) -> Footprint:
    """Return the footprint by a header, if it is a model's."""
    architecture = header.text("general.architecture") or "unknown"
    kind = "mmproj" if architecture == PROJECTOR else header.text("general.type")
    if kind in OTHER_TYPES:
        header.refuse(f"is {OTHER_TYPES[kind]}")
    return footprint(header, architecture)


def footprint(header: Header, architecture: str) -> Footprint:
    def number(key: str, default: int = 0) -> int:
        return header.number(f"{architecture}.{key}", default)

    heads = number("attention.head_count")
    experts, active = number("expert_count"), number("expert_used_count")
    # Converters leave the number where they leave the blocks out.
    blocks = {t.name.partition(DRAFTING)[0] for t in header.tensors if DRAFTING in t.name}
    return Footprint(
        path=header.path,
        architecture=architecture,
        name=" ".join((header.text("general.name") or header.path.stem).split()),
        quantisation=quantisation(header),
        file_bytes=header.file_bytes,
        weight_bytes=sum(tensor.size for tensor in header.tensors),
        layers=number("block_count"),
        heads=heads,
        kv_heads=number("attention.head_count_kv", heads),
        embedding=number("embedding_length"),
        vocabulary=header.length(TOKENS),
        context=max(number("context_length"), scaled_context(header, architecture)),
        read_bytes=read_bytes(header, active / experts if experts else 1.0, blocks),
        parameters=sum(math.prod(tensor.shape) for tensor in header.tensors),
        positions=sum(t.shape[-1] for t in header.tensors if t.name == POSITIONS),
        experts=experts,
        active_experts=active,
        drafting_layers=number("nextn_predict_layers") if blocks else 0,
        drafter=drafter(header),
        mask_token=mask(header),
        tokenizer=header.text("tokenizer.ggml.model") or "",
        chat_template=header.text("tokenizer.chat_template"),
        uneven=uneven(header.tensors),
        even=bool(products.name()) and all(map(rounds_alike, matrices(header.tensors))),
        pooling=POOLINGS.get(number("pooling_type"), ""),
        basename=header.text("general.basename") or "",
        sampling=advised(header),
        samplers=header.text("general.sampling.sequence") or "",
    )


def read_bytes(header: Header, active: float, blocks: Iterable[str]) -> int:
    """Count the bytes of weights that each token reads, without those of drafting blocks."""
    drafting = tuple(f"{block}." for block in blocks)
    trunk = [tensor for tensor in header.tensors if not tensor.name.startswith(drafting)]
    return round(sum(share * matrix.size for matrix, share in multiplied(trunk, active)))


def advised(header: Header) -> dict[str, float]:
    """Read the sampling that a converter found beside the weights."""
    values = {name: header.values.get(f"general.sampling.{key}") for name, key in SAMPLING.items()}
    return {
        name: round(value.number, 6)  # 0.7 is 0.699999988 in the 32 bits that a file has
        for name, value in values.items()
        if value and value.kind in FORMATS
    }


def scaled_context(header: Header, architecture: str) -> int:
    """Count the tokens that positions are stretched to (RoPE scaling); 0: they are not."""
    scaling = f"{architecture}.rope.scaling"
    factor = header.values.get(f"{scaling}.factor")
    original = header.number(f"{scaling}.original_context_length")
    stretched = original * factor.number if factor and factor.kind == FLOAT32 else 0.0
    return int(stretched) if 0 < stretched < MOST_TOKENS else 0


def mask(header: Header) -> int | None:
    """Read the token by which a draft model is asked for several tokens at once.

    Tokenizers of other models have a mask, too, so a name has to show that it was trained so.
    """
    names = (header.path.name, header.text("general.name") or "")
    token = header.number(MASK, -1)
    pard = any("pard" in name.lower() for name in names)
    return token if pard and 0 <= token < header.length(TOKENS) else None


def quantisation(header: Header) -> str:
    """The recipe that the file names, else the type of most of its bytes."""
    if not header.tensors:
        return "vocabulary only"
    recipe: str | None = FILE_TYPES.get(header.number("general.file_type", -1) & ~GUESSED)
    if recipe:
        return recipe
    sizes: Counter[str] = Counter()
    for tensor in header.tensors:
        sizes[tensor.kind] += tensor.size
    return sizes.most_common(1)[0][0]
