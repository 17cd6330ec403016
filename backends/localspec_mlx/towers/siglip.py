"""The tower of Gemma 3: SigLIP's layers; squares of patches are averaged, and projected."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import mlx.core as mx
from mlx.nn.layers.activations import gelu_approx
from mlx.nn.layers.base import Module
from mlx.nn.layers.convolution import Conv2d
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import LayerNorm

from localspec_mlx.folder.pictures import PictureSettings
from localspec_mlx.towers.patches import averaged, heads_apart, tensors_of_pictures

COLOURS = 3


class Gemma3Tower(Module):
    """Its parts have the names that they have in files."""

    def __init__(self, settings: PictureSettings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.vision_tower = Module()  # type: ignore[no-untyped-call]
        self.vision_tower.vision_model = Siglip(settings)
        self.multi_modal_projector = Averages(settings)

    def __call__(self, pixels: mx.array) -> mx.array:
        """Turn a picture [height, width, colours] into embeddings [positions, width]."""
        states = self.vision_tower.vision_model(pixels)
        embeddings: mx.array = self.multi_modal_projector(states)
        return embeddings

    def sanitize(self, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        """Choose the tower's, by the older names, and turn the filters as MLX has them."""
        chosen = {
            re.sub(r"^vision_tower\.(?!vision_model\.)", "vision_tower.vision_model.", name): array
            for name, array in tensors_of_pictures(weights).items()
        }
        name = "vision_tower.vision_model.embeddings.patch_embedding.weight"
        if (filters := chosen[name]).shape[-1] != COLOURS:
            chosen[name] = filters.transpose(0, 2, 3, 1)
        return chosen


class Siglip(Module):
    def __init__(self, settings: PictureSettings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        tower = settings.tower
        width, eps = tower["hidden_size"], tower.get("layer_norm_eps", 1e-6)
        self.embeddings = Patches(settings)
        self.encoder = Module()  # type: ignore[no-untyped-call]
        self.encoder.layers = [SiglipLayer(tower) for _ in range(tower["num_hidden_layers"])]
        self.post_layernorm = LayerNorm(width, eps)

    def __call__(self, pixels: mx.array) -> mx.array:
        x = self.embeddings(pixels)
        for layer in self.encoder.layers:
            x = layer(x)
        states: mx.array = self.post_layernorm(x)
        return states


class Patches(Module):
    """Embeds patches, each with its place."""

    def __init__(self, settings: PictureSettings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        width, patch = settings.tower["hidden_size"], settings.patch
        self.patch_embedding = Conv2d(COLOURS, width, patch, patch)
        self.position_embedding = Embedding(settings.patches, width)

    def __call__(self, pixels: mx.array) -> mx.array:
        pixels = pixels.astype(self.patch_embedding.weight.dtype)
        patches = self.patch_embedding(pixels[None]).flatten(1, 2)
        embedded: mx.array = patches + self.position_embedding(mx.arange(patches.shape[1]))
        return embedded


class SiglipLayer(Module):
    def __init__(self, tower: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        width, inner = tower["hidden_size"], tower["intermediate_size"]
        eps = tower.get("layer_norm_eps", 1e-6)
        self.layer_norm1, self.layer_norm2 = LayerNorm(width, eps), LayerNorm(width, eps)
        self.self_attn = SiglipAttention(width, tower["num_attention_heads"])
        self.mlp = Module()  # type: ignore[no-untyped-call]
        self.mlp.fc1, self.mlp.fc2 = Linear(width, inner), Linear(inner, width)

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.self_attn(self.layer_norm1(x))
        inner = gelu_approx(self.mlp.fc1(self.layer_norm2(x)))
        output: mx.array = x + self.mlp.fc2(inner)
        return output


class SiglipAttention(Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            Linear(width, width) for _ in range(4)
        )
        self._heads = heads

    def __call__(self, x: mx.array) -> mx.array:
        queries, keys, values = (
            heads_apart(part(x), self._heads) for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        scale = queries.shape[-1] ** -0.5
        seen = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale)
        output: mx.array = self.out_proj(seen.transpose(0, 2, 1, 3).flatten(2))
        return output


class Averages(Module):
    """Averages the patches of each position, and projects them into the model's width."""

    def __init__(self, settings: PictureSettings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        reads = settings.tower["hidden_size"]
        self.mm_soft_emb_norm = Module()  # type: ignore[no-untyped-call]
        self.mm_soft_emb_norm.weight = mx.zeros(reads)
        self.mm_input_projection_weight = mx.zeros((reads, settings.width))
        self._eps = settings.tower.get("layer_norm_eps", 1e-6)
        self._side, self._pooled = math.isqrt(settings.patches), settings.pooled

    def __call__(self, states: mx.array) -> mx.array:
        averages = averaged(states.reshape(self._side, self._side, -1), self._pooled)
        gains = 1.0 + self.mm_soft_emb_norm.weight
        return mx.fast.rms_norm(averages, gains, self._eps) @ self.mm_input_projection_weight
