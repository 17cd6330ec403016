"""Multi-token prediction as Qwen trains it: a few layers of the target's own kind.

They read a token's embedding and the target's last state, each normalised, side by side. Embedding
and output are the target's. The weights lie with the target's (`mtp.*`), or in a folder of their
own, as mlx-vlm cuts them out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models.base import create_attention_mask
from mlx_lm.utils import _get_classes as get_classes

from localspec_mlx.folder.drafters import PREFIX
from localspec_mlx.heads.target import body, output

FUSED = "experts.gate_up_proj"
EXPERT = re.compile(r"(?P<place>.+\.)experts\.(?P<number>\d+)\.(?P<part>.+)")
Weights = Mapping[str, mx.array]


class QwenHead(Module):
    def __init__(self, target: Module, raw: frozenset[str], config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        text = dict(config.get("text_config") or config)
        depth = int(text.get("mtp_num_hidden_layers", 1))
        like = one_of(target, {**text, "num_hidden_layers": depth, "full_attention_interval": 1})
        width, epsilon = like.model.embed_tokens.weight.shape[-1], like.model.norm.eps
        self.layers, self.norm = like.model.layers, like.model.norm
        self.fc = Linear(2 * width, width, bias=False)
        self.pre_fc_norm_embedding = RMSNorm(width, epsilon)
        self.pre_fc_norm_hidden = RMSNorm(width, epsilon)
        self._embed = body(target).embed_tokens.__call__
        self._output = output(target)
        self._raw = raw

    def __call__(
        self, tokens: mx.array, states: mx.array, caches: Sequence[Any]
    ) -> tuple[mx.array, mx.array]:
        embedded = self.pre_fc_norm_embedding(self._embed(tokens))
        x = self.fc(mx.concatenate([embedded, self.pre_fc_norm_hidden(states)], axis=-1))
        mask = create_attention_mask(x, caches[0])
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, mask=mask, cache=cache)
        x = self.norm(x)
        return x, x

    def logits(self, outputs: mx.array) -> mx.array:
        return self._output(outputs)

    def sanitize(self, weights: Weights) -> Weights:
        """Choose and name the head's weights as its parts are named here."""
        inside = {n: array for n, array in weights.items() if n.startswith(PREFIX)}
        # Norms as Qwen stores them lack 1; mlx-lm and mlx-vlm add it as they convert.
        arrays = {
            name.removeprefix(PREFIX): array + 1 if name in self._raw and array.ndim == 1 else array
            for name, array in (inside or weights).items()
        }
        return stacked(arrays)


def stacked(weights: dict[str, mx.array]) -> Weights:
    """Lay experts out as mlx-lm does: an array for all of them, gates and ups apart."""
    for name in [name for name in weights if name.endswith(FUSED)]:
        place = name.removesuffix(FUSED) + "switch_mlp."
        gates, ups = mx.split(weights.pop(name), 2, axis=-2)
        weights |= {f"{place}gate_proj.weight": gates, f"{place}up_proj.weight": ups}
        downs = name.replace("gate_up_proj", "down_proj")
        weights[f"{place}down_proj.weight"] = weights.pop(downs)
    apart: dict[str, dict[int, mx.array]] = {}
    for name in list(weights):
        if match := EXPERT.fullmatch(name):
            experts = apart.setdefault(f"{match['place']}switch_mlp.{match['part']}", {})
            experts[int(match["number"])] = weights.pop(name)
    return weights | {
        name: mx.stack([experts[at] for at in sorted(experts)]) for name, experts in apart.items()
    }


def one_of(target: Module, settings: Mapping[str, Any]) -> Module:
    """Make a model of the target's kind by other settings."""
    kind = {"model_type": target.model_type}
    model, arguments = get_classes(kind)
    made: Module = model(arguments.from_dict({**settings, **kind, "text_config": settings}))
    return made
