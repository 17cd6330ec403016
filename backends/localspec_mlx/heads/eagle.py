"""EAGLE: a layer of llama's kind, which reads the token and its target's last state side by side.

It returns the target's next state, as far as it can tell. What it reads is not normalised before
its layer. Embedding and output are the target's, of which a file may hold copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Identity, Linear
from mlx_lm.models import llama
from mlx_lm.models.base import create_attention_mask

from localspec_mlx.folder.drafters import COPIED
from localspec_mlx.heads.target import body, described, output


class Eagle(Module):
    def __init__(self, target: Module, config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        text = {**described(config, "llama"), "attention_bias": True}
        layer = llama.TransformerBlock(llama.ModelArgs.from_dict(text))
        layer.input_layernorm = Identity()
        self.layers = [layer]
        self.fc = Linear(2 * layer.hidden_size, layer.hidden_size)
        inner = body(target)
        self._embed = inner.embed_tokens.__call__
        self._number = inner.norm.weight.dtype
        self.logits = output(target)

    def __call__(
        self, tokens: mx.array, states: mx.array, caches: Sequence[Any]
    ) -> tuple[mx.array, mx.array]:
        x = self.fc(mx.concatenate([self._embed(tokens), states], axis=-1))
        x = self.layers[0](x, create_attention_mask(x, caches[0]), caches[0])
        return x, x

    def sanitize(self, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        """Choose the weights that the target has not; leave out biases that are not among them."""
        own = {
            name: array.astype(self._number) if mx.issubdtype(array.dtype, mx.floating) else array
            for name, array in weights.items()
            if not name.startswith(COPIED) and not name.endswith("inv_freq")
        }
        for name, module in self.named_modules():  # type: ignore[no-untyped-call]
            if "bias" in module and f"{name}.bias" not in own:
                del module["bias"]
        return own
