"""Heads with a stage for each token of a draft: Medusa's, and the MLP speculator's.

The first stage reads the target's last state, each other one what the stage before it returned.
They keep nothing of the text, and draft no further than there are stages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

import mlx.core as mx
from mlx.nn.layers.activations import gelu, silu
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm

from localspec_mlx.folder.config import Config
from localspec_mlx.heads.counting import count_in, counting, together
from localspec_mlx.heads.reader import Part, Read
from localspec_mlx.heads.target import body, output, spread

MAX_STAGES = 64
EPSILON = 1e-6
PREFIX = re.compile(r"^(?:medusa_heads?|speculator)\.")
# As Medusa's authors name what a stage is made of, then as vLLM does; and those of a speculator.
NAMES = {
    re.compile(r"(\d+)\.(\d+)\.linear\.(weight|bias)"): r"stages.\1.blocks.\2.\3",
    re.compile(r"(\d+)\.\d+\.weight"): r"stages.\1.out.weight",
    re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)"): r"stages.\1.blocks.\2.\3",
    re.compile(r"lm_heads\.(\d+)\.weight"): r"stages.\1.out.weight",
    re.compile(r"(emb|proj|ln|head)\.(\d+)\.(weight|bias)"): r"stages.\2.\1.\3",
}
Weights = Mapping[str, mx.array]
Finish = Callable[[mx.array], mx.array]


def by_stage(weights: Weights) -> dict[str, mx.array]:
    """Name tensors by their stage; others keep their names, and are refused as they are loaded."""
    renamed = {}
    for name, array in weights.items():
        bare = PREFIX.sub("", name)
        matches = ((pattern.fullmatch(bare), new) for pattern, new in NAMES.items())
        renamed[next((match.expand(new) for match, new in matches if match), bare)] = array
    return renamed


def count_stages(weights: Weights, part: str = "") -> int:
    """Count the stages that have tensors; those of a part, if one is given."""
    places = [name.split(".") for name in weights if name.startswith("stages.")]
    return len({place[1] for place in places if place[2].startswith(part)})


class Stage(Protocol):
    def __call__(self, tokens: mx.array, states: mx.array, /) -> tuple[mx.array, mx.array]:
        """Read a token of each row and the state before it; return states, and logits."""


class StagedHead(Module):
    """Stages of either kind, with their weights."""

    def __init__(self, stages: Sequence[Stage], weights: Weights) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if not stages:
            raise ValueError("it holds no heads")
        self.stages = list(stages)
        self.load_weights(list(weights.items()))


class MedusaStage(Module):
    """Residual blocks on the target's last state, which they hand on as it is."""

    def __init__(self, width: int, layers: int, drafts: int, finish: Finish, *, bias: bool) -> None:
        """Put a matrix for `drafts` tokens after the blocks, if any; `finish` returns logits."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.blocks = [Linear(width, width, bias=bias) for _ in range(layers)]
        if drafts:
            self.out = Linear(width, drafts, bias=False)
        self._finish = finish

    def __call__(self, _: mx.array, states: mx.array) -> tuple[mx.array, mx.array]:
        x = states
        for block in self.blocks:
            x = x + silu(block(x))
        return states, self._finish(self.out(x) if "out" in self else x)


def medusa(target: Module, config: Config, weights: Weights, vocabulary: int) -> StagedHead:
    """Set up the heads of Medusa, which may draft some tokens only, or with the target's output."""
    named = by_stage(weights)
    tokens = named.pop("token_map", None)
    if config.values.get("original_lm_head"):  # a copy of the target's
        named = {name: array for name, array in named.items() if "blocks." in name}
    outs = [name for name in named if ".out." in name]
    drafts, finish = (vocabulary, unchanged) if outs else (0, output(target))
    if outs and tokens is not None:
        drafts, places = len(tokens), tokens.astype(mx.int32)
        finish = partial(spread, places=places, vocabulary=vocabulary)
        named |= {name: named[name][tokens] for name in outs if len(named[name]) > drafts}
    width = body(target).norm.weight.shape[-1]
    layers = len({name for name in named if re.match(r"stages\.0\.blocks\.\d+\.weight", name)})
    bias = any(name.endswith("bias") for name in named)
    count = count_stages(named)
    stages = [MedusaStage(width, layers, drafts, finish, bias=bias) for _ in range(count)]
    return StagedHead(stages, named)


def unchanged(logits: mx.array) -> mx.array:
    return logits


class SpeculatorStage(Module):
    """A token, mixed into the state, which counts for half in the last stage."""

    def __init__(self, reads: int, width: int, tokens: int, keeps: float, *, scales: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.emb = Embedding(tokens, width)
        self.proj = Linear(reads, width, bias=False)
        self.ln = RMSNorm(width, EPSILON)
        self.ln.bias = mx.zeros(width)
        self.head = Linear(width, tokens, bias=False)
        self._keeps, self._scales = keeps, scales
        self._adds = ((1 - keeps**2) * width / 2) ** 0.5

    def __call__(self, tokens: mx.array, states: mx.array) -> tuple[mx.array, mx.array]:
        if self._scales:
            states = mx.fast.rms_norm(states, None, EPSILON) / 2**0.5
        x = self.proj(states) * self._keeps + self.emb(tokens) * self._adds
        x = gelu(self.ln(x) + self.ln.bias)
        return x, self.head(x)


def speculator(target: Module, config: Config, weights: Weights, vocabulary: int) -> StagedHead:
    """Set up the stages of an MLP speculator, which may share their weights."""
    count = config.number(("n_predict",)) or 3
    reads = body(target).norm.weight.shape[-1]
    width = config.number(("inner_dim",)) or reads
    named, keeps = by_stage(weights), 0.5 ** (0.5 / count)
    if config.values.get("tie_weights"):
        named = untied(named, min(count, MAX_STAGES))
    elif count_stages(named) != count:
        held = f"it holds {count_stages(named)} stages"
        raise ValueError(f"{held}, and its configuration promises {count:,}")
    scales = bool(config.values.get("scale_input"))
    stages = [
        SpeculatorStage(width if at else reads, width, vocabulary, keeps, scales=scales and not at)
        for at in range(count_stages(named))
    ]
    return StagedHead(stages, named)


def untied(weights: Weights, count: int) -> dict[str, mx.array]:
    """Give each stage the tensors that stages share, of which a file may hold one copy."""
    own = {}
    for part in ("emb.weight", "proj.weight", "ln.weight", "ln.bias", "head.weight"):
        held = max(count_stages(weights, part.partition(".")[0]), 1)
        for at in range(count):
            own[f"stages.{at}.{part}"] = weights[f"stages.{min(at, held - 1)}.{part}"]
    return own


class StageReader:
    """Drafts a token with each stage; of the text it counts the tokens."""

    def __init__(self, head: StagedHead, count: int) -> None:
        self.slots = counting(count)
        self.limit = len(head.stages)
        self._stages = head.stages

    def take_in(self, parts: Mapping[int, Part]) -> None:
        count_in(self.slots, parts)

    def read(self, parts: Mapping[int, Part]) -> Read:
        self.take_in(parts)
        slots_of: dict[int, list[int]] = {}
        for slot, part in parts.items():
            slots_of.setdefault(self.slots.length(slot) - part.held, []).append(slot)
        outcomes: dict[int, tuple[mx.array, mx.array]] = {}
        for stage, slots in slots_of.items():
            at_stage = [parts[slot] for slot in slots]
            tokens = mx.stack([part.tokens[part.newest] for part in at_stage])
            states = mx.stack([part.states[part.newest] for part in at_stage])
            states, logits = self._stages[stage](tokens, states)
            outcomes |= {slot: (states[at], logits[at]) for at, slot in enumerate(slots)}
        return together(outcomes, parts)

    def logits(self, outputs: mx.array) -> mx.array:
        return outputs
