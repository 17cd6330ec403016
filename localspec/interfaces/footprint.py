"""A model before it is loaded: its headers, and the bytes that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

Kind = Literal["text", "embedding", "reranking"]
DOES: Mapping[Kind, str] = {
    "text": "continues text",
    "embedding": "turns texts into vectors",
    "reranking": "ranks documents",
}
RANK = "rank"  # the pooling of a model that scores pairs
VECTOR_POOLINGS = ("mean", "cls", "last")  # by which a text becomes a vector


def kind_of(pooling: str) -> Kind:
    """Return what a model does by how it pools: without a pooling it continues text."""
    if not pooling:
        return "text"
    return "reranking" if pooling == RANK else "embedding"


@dataclass(frozen=True, slots=True)
class Footprint:
    """A model by its headers, and by laying it out (those fields are 0 until then)."""

    path: Path
    architecture: str
    name: str
    quantisation: str
    file_bytes: int
    weight_bytes: int
    layers: int
    heads: int
    kv_heads: int
    embedding: int
    vocabulary: int
    context: int  # tokens the model was trained for
    tokenizer: str
    chat_template: str | None
    parameters: int = 0  # in all its tensors; 0: the engine does not report it
    read_bytes: int = 0  # of weights that each token reads; 0: the engine does not report it
    positions: int = 0  # learned ones, beyond which there are none; 0: any position has one
    experts: int = 0
    active_experts: int = 0  # of these for each token
    drafting_layers: int = 0  # of a head in the same file (MTP)
    drafter: str = ""  # the proposer, of a file that holds a drafting head and no model
    mask_token: int | None = None  # for unknown tokens, where a forward drafts several (PARD)
    pooling: str = ""  # of a model that reads whole texts: "mean", "cls", "last" or "rank"
    uneven: str = ""  # weights that round by the width of a batch, as "12 tensors in Q6_K"
    even: bool = False  # LocalSpec's products are here, and round all weights alike in any batch
    projector: Path | None = None  # a file beside it, by which it sees or hears
    attention_layers: int = 0  # that keep every token
    kv_bytes_per_token: int = 0  # 16-bit keys and values of those
    window: int = 0  # tokens a sliding-window layer keeps; 0: there are none
    window_layers: int = 0
    window_bytes_per_token: int = 0  # 16-bit keys and values of those
    head_width: int = 0  # numbers of a head, of the widest; 0: not reported
    recurrent_layers: int = 0
    state_bytes: int = 0  # recurrent state of one slot; 0: attention only
    basename: str = ""  # of the model without its size, as "Qwen2.5-Coder", where a file has it
    # What its files advise for sampling, by the names of `Sampling`.
    sampling: Mapping[str, float] = field(default_factory=dict)
    samplers: str = ""  # the order that they advise, as llama.cpp writes it

    @property
    def kind(self) -> Kind:
        return kind_of(self.pooling)

    @property
    def recurrent(self) -> bool:
        return self.state_bytes > 0


class DeviceNeeds(NamedTuple):
    """The bytes that a model takes on one device."""

    weights: int
    cache: int
    working: int
    read: int  # of the weights, for each token


@dataclass(frozen=True, slots=True)
class Needs:
    """The bytes that a model takes, loaded with given options."""

    weights: int
    cache: int  # keys, values and states of all slots
    working: int  # what a forward computes in, and the logits
    layers: int = 1  # between which weights and what is kept may be divided among devices
    embeddings: int = 0  # the weights that stay with the host where layers go to a GPU
    output: int = 0  # goes to a GPU with the last layer
    tied: bool = False  # the output is a copy of embeddings, made only there
    host: int = 0  # working memory of the host beside a GPU
    head: int = 0  # a drafting head in a file of its own; lies where the output does
    # Turns pictures into embeddings; lies on the first GPU that has layers, or on the host.
    projector: int = 0
    devices: tuple[DeviceNeeds, ...] = ()  # by the host and each GPU, where the engine reports it

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.working + self.head + self.projector

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Needs:
        """Read what `asdict` wrote as JSON."""
        return cls(**{**data, "devices": tuple(DeviceNeeds(*device) for device in data["devices"])})
