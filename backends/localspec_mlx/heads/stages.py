"""Heads with a stage for each token of a draft: Medusa's, and the MLP speculator's.

The first stage reads the target's last state, each other one what the stage before it returned.
They keep nothing of the text, and draft no further than there are stages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import mlx.core as mx
from mlx.nn.layers.activations import gelu, silu
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm

from localspec_mlx.folder.config import Config
from localspec_mlx.heads.counting import count_in, counting, together
from localspec_mlx.heads.head import Part, Read
from localspec_mlx.heads.target import body, output, spread

MOST = 64  # stages; no draft is longer
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


def named(weights: Weights) -> dict[str, mx.array]:
    """Name tensors by their stage; others keep their names, and are refused as they are loaded."""
    found = {}
    for name, array in weights.items():
        bare = PREFIX.sub("", name)
        ways = ((pattern.fullmatch(bare), new) for pattern, new in NAMES.items())
        found[next((match.expand(new) for match, new in ways if match), bare)] = array
    return found


def stages_in(weights: Weights, part: str = "") -> int:
    """Count the stages that have tensors; those of a part, if one is given."""
    places = [name.split(".") for name in weights if name.startswith("stages.")]
    return len({place[1] for place in places if place[2].startswith(part)})


class MedusaStage(Module):
    def __init__(self, width: int, layers: int, drafts: int, *, bias: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.blocks = [Linear(width, width, bias=bias) for _ in range(layers)]
        if drafts:
            self.out = Linear(width, drafts, bias=False)


class Medusa(Module):
    """Residual blocks on the last state, whose token they know by it."""

    def __init__(self, target: Module, config: Config, weights: Weights, vocabulary: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        found = named(weights)
        places = found.pop("token_map", None)
        self._places = None if places is None else places.astype(mx.int32)
        if config.values.get("original_lm_head"):  # a copy of the target's
            found = {name: each for name, each in found.items() if "blocks." in name}
        drafts = vocabulary if any(".out." in name for name in found) else 0
        if drafts and places is not None:
            drafts = len(places)
            found = {
                name: each[places] if ".out." in name and len(each) > drafts else each
                for name, each in found.items()
            }
        width = body(target).norm.weight.shape[-1]
        layers = len({name for name in found if re.match(r"stages\.0\.blocks\.\d+\.weight", name)})
        bias = any(name.endswith("bias") for name in found)
        self.limit = stages_in(found)
        if not self.limit:
            raise ValueError("it holds no heads")
        self.stages = [MedusaStage(width, layers, drafts, bias=bias) for _ in range(self.limit)]
        self.load_weights(list(found.items()))
        self._output = output(target)
        self._vocabulary = vocabulary

    def draft(self, stage: int, _: mx.array, states: mx.array) -> tuple[mx.array, mx.array]:
        """Hand on the target's state as it is; return it with the logits of a stage."""
        own, x = self.stages[stage], states
        for block in own.blocks:
            x = x + silu(block(x))
        if "out" not in own:
            return states, self._output(x)
        logits = own.out(x)
        if self._places is not None:
            logits = spread(logits, self._places, self._vocabulary)
        return states, logits


class SpeculatorStage(Module):
    def __init__(self, reads: int, width: int, tokens: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.emb = Embedding(tokens, width)
        self.proj = Linear(reads, width, bias=False)
        self.ln = RMSNorm(width, EPSILON)
        self.ln.bias = mx.zeros(width)
        self.head = Linear(width, tokens, bias=False)


class Speculator(Module):
    """Each stage mixes its token into the state, which counts for half in the last one."""

    def __init__(self, target: Module, config: Config, weights: Weights, vocabulary: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        predicts = config.number(("n_predict",)) or 3
        reads = body(target).norm.weight.shape[-1]
        width = config.number(("inner_dim",)) or reads
        found = named(weights)
        if config.values.get("tie_weights"):
            found = untied(found, min(predicts, MOST))
        elif stages_in(found) != predicts:
            held = f"it holds {stages_in(found)} stages"
            raise ValueError(f"{held}, and its configuration promises {predicts:,}")
        self.limit = stages_in(found)
        self.stages = [
            SpeculatorStage(width if at else reads, width, vocabulary) for at in range(self.limit)
        ]
        self.load_weights(list(found.items()))
        self._scales = bool(config.values.get("scale_input"))
        self._keeps = 0.5 ** (0.5 / predicts)
        self._adds = ((1 - self._keeps**2) * width / 2) ** 0.5

    def draft(self, stage: int, tokens: mx.array, states: mx.array) -> tuple[mx.array, mx.array]:
        """Read a token of each row and the state before it; return states, and logits."""
        own = self.stages[stage]
        if self._scales and not stage:
            states = mx.fast.rms_norm(states, None, EPSILON) / 2**0.5
        x = own.proj(states) * self._keeps + own.emb(tokens) * self._adds
        x = gelu(own.ln(x) + own.ln.bias)
        return x, own.head(x)


def untied(weights: Weights, count: int) -> dict[str, mx.array]:
    """Give each stage the tensors that stages share, of which a file may hold one copy."""
    found = {}
    for part in ("emb.weight", "proj.weight", "ln.weight", "ln.bias", "head.weight"):
        held = max(stages_in(weights, part.partition(".")[0]), 1)
        for at in range(count):
            found[f"stages.{at}.{part}"] = weights[f"stages.{min(at, held - 1)}.{part}"]
    return found


class StageReader:
    """Drafts a token with each stage; of the text it counts the tokens."""

    def __init__(self, head: Medusa | Speculator, count: int) -> None:
        self.slots = counting(count)
        self.limit = head.limit
        self._head = head

    def take_in(self, parts: Mapping[int, Part]) -> None:
        count_in(self.slots, parts)

    def read(self, parts: Mapping[int, Part]) -> Read:
        self.take_in(parts)
        stages: dict[int, list[int]] = {}
        for slot, part in parts.items():
            stages.setdefault(self.slots.length(slot) - part.held, []).append(slot)
        found: dict[int, tuple[mx.array, mx.array]] = {}
        for stage, slots in stages.items():
            these = [parts[slot] for slot in slots]
            tokens = mx.stack([part.tokens[part.newest] for part in these])
            states = mx.stack([part.states[part.newest] for part in these])
            states, logits = self._head.draft(stage, tokens, states)
            found |= {slot: (states[at], logits[at]) for at, slot in enumerate(slots)}
        return together(found, parts)

    def logits(self, outputs: mx.array) -> mx.array:
        return outputs
