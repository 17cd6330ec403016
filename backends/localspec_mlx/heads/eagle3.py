"""EAGLE-3: a layer of llama's kind, which reads three layers of its target and the token.

It has a vocabulary of its own, a part of its target's. Its first layer attends by the token's
embedding and the state side by side; the state it returns is not normalised yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models import llama
from mlx_lm.models.base import create_attention_mask

from localspec_mlx.heads.target import body, described, output, spread


class FirstLayer(Module):
    def __init__(self, settings: llama.ModelArgs, *, residual_is_normed: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        width, epsilon = settings.hidden_size, settings.rms_norm_eps
        self.self_attn = llama.Attention(settings)
        for name in ("q_proj", "k_proj", "v_proj"):
            out = self.self_attn[name].weight.shape[0]
            self.self_attn[name] = Linear(2 * width, out, bias=settings.attention_bias)
        self.mlp = llama.MLP(settings)
        self.input_layernorm = RMSNorm(width, epsilon)
        self.hidden_norm = RMSNorm(width, epsilon)
        self.post_attention_layernorm = RMSNorm(width, epsilon)
        self._residual_is_normed = residual_is_normed

    def __call__(self, embedded: mx.array, states: mx.array, mask: Any, cache: Any) -> mx.array:
        normed = self.hidden_norm(states)
        both = mx.concatenate([self.input_layernorm(embedded), normed], axis=-1)
        x = self.self_attn(both, mask, cache)
        x = x + (normed if self._residual_is_normed else states)
        output: mx.array = x + self.mlp(self.post_attention_layernorm(x))
        return output


class Eagle3(Module):
    def __init__(self, target: Module, vocabulary: int, config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        text = described(config, "llama")
        settings = llama.ModelArgs.from_dict(text)
        width, epsilon = settings.hidden_size, settings.rms_norm_eps
        inner = body(target)
        reads = 3 * int(config.get("target_hidden_size") or inner.norm.weight.shape[-1])
        drafts = int(config.get("draft_vocab_size") or settings.vocab_size)
        first = FirstLayer(
            settings, residual_is_normed=bool(config.get("norm_before_residual", False))
        )
        others = [llama.TransformerBlock(settings) for _ in range(1, settings.num_hidden_layers)]
        self.layers = [first, *others]
        self.fc = Linear(reads, width, bias=False)
        if config.get("norm_before_fc"):
            self.input_norm = RMSNorm(reads, epsilon)
        self.norm = RMSNorm(width, epsilon)
        self.embed_tokens = Embedding(settings.vocab_size, width)
        self.lm_head = Linear(width, drafts, bias=False)
        self.d2t = mx.zeros(drafts, mx.int32)
        self._width, self._vocabulary = width, vocabulary
        self._embed = inner.embed_tokens.__call__
        self._output = output(target)

    def __call__(
        self, tokens: mx.array, states: mx.array, caches: Sequence[Any]
    ) -> tuple[mx.array, mx.array]:
        embedded = self.embed_tokens(tokens) if "embed_tokens" in self else self._embed(tokens)
        x = states
        if x.shape[-1] != self._width:  # its target's
            x = self.fc(self.input_norm(x) if "input_norm" in self else x)
        mask = create_attention_mask(x, caches[0])
        x = self.layers[0](embedded, x, mask, caches[0])
        for layer, cache in zip(self.layers[1:], caches[1:], strict=True):
            x = layer(x, mask, cache)
        return x, x

    def logits(self, outputs: mx.array) -> mx.array:
        x = self.norm(outputs)
        logits: mx.array = self.lm_head(x) if "lm_head" in self else self._output(x)
        if "d2t" not in self:
            return logits
        return spread(logits, self._places, self._vocabulary)

    def sanitize(self, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        """Name weights as they are named here; what is not there, the target has."""
        renamed = {
            name.removeprefix("model.").replace("midlayer.", "layers.0."): array
            for name, array in weights.items()
            if not name.endswith(("t2d", "inv_freq")) and not name.startswith("verifier_")
        }
        if "d2t" in renamed:
            renamed["d2t"] = renamed["d2t"].astype(mx.int32)
            self._places = mx.arange(len(renamed["d2t"])) + renamed["d2t"]
        for name in ("embed_tokens", "lm_head", "d2t"):
            if not any(part.partition(".")[0] == name for part in renamed):
                del self[name]
        return renamed


def layers_read(config: Mapping[str, Any], layers: int) -> Sequence[int]:
    """List the layers whose outputs are read, by their numbers from 0; -1 is the embedding.

    Published numbers are of layers whose inputs are read, but SGLang's, which are of outputs.
    """
    nested = config.get("eagle_config") or {}
    outputs = nested.get("eagle_aux_hidden_state_layer_ids")
    inputs = config.get("eagle_aux_hidden_state_layer_ids") or (2, layers // 2, layers - 3)
    layer_ids = [int(at) for at in outputs] if outputs else [int(at) - 1 for at in inputs]
    if strange := [at + 1 for at in layer_ids if not -1 <= at < layers]:
        raise ValueError(f"it reads layer {strange[0]} of a model that has {layers}")
    return layer_ids
