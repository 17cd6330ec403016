"""The tower of Gemma 4: a picture keeps its proportions, and each patch has a place in two axes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import mlx.core as mx
from mlx.nn.layers.activations import gelu_approx
from mlx.nn.layers.base import Module
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm

from localspec_mlx.folder.pictures import PictureSettings
from localspec_mlx.towers.patches import averaged, heads_apart, tensors_of_pictures

COLOURS, AXES = 3, 2
BOUNDS = ("input_min", "input_max", "output_min", "output_max")


class Gemma4Tower(Module):
    """Its parts have the names that they have in files."""

    def __init__(self, settings: PictureSettings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        tower = settings.tower
        self.vision_tower = Encoder(settings)
        self.embed_vision = Module()  # type: ignore[no-untyped-call]
        self.embed_vision.embedding_projection = Linear(
            tower["hidden_size"], settings.width, bias=False
        )
        self._eps = tower.get("rms_norm_eps", 1e-6)
        self._is_bounded = tower.get("use_clipped_linears", False)

    def __call__(self, pixels: mx.array) -> mx.array:
        """Turn a picture [height, width, colours] into embeddings [positions, width]."""
        states = mx.fast.rms_norm(self.vision_tower(pixels), None, self._eps)
        embeddings: mx.array = self.embed_vision.embedding_projection(states)
        return embeddings

    def sanitize(self, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        chosen = tensors_of_pictures(weights)
        if self._is_bounded:
            return chosen
        return {name: array for name, array in chosen.items() if not name.endswith(BOUNDS)}


class Encoder(Module):
    def __init__(self, settings: PictureSettings) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        tower = settings.tower
        width = tower["hidden_size"]
        places = tower["position_embedding_size"]
        self.patch_embedder = Module()  # type: ignore[no-untyped-call]
        inputs = COLOURS * settings.patch**2
        self.patch_embedder.input_proj = Linear(inputs, width, bias=False)
        self.patch_embedder.position_embedding_table = mx.zeros((AXES, places, width))
        self.encoder = Module()  # type: ignore[no-untyped-call]
        self.encoder.layers = [Gemma4Layer(tower) for _ in range(tower["num_hidden_layers"])]
        if tower.get("standardize", False):
            self.std_bias, self.std_scale = mx.zeros(width), mx.ones(width)
        rope = tower.get("rope_parameters") or {}
        self._base = rope.get("rope_theta", 100.0)
        self._patch, self._pooled, self._head = settings.patch, settings.pooled, tower["head_dim"]

    def __call__(self, pixels: mx.array) -> mx.array:
        down, across = (side // self._patch for side in pixels.shape[:2])
        x = self._embedded(pixels, down, across)
        turn = partial(turned, *rotations(down, across, self._head, self._base))
        for layer in self.encoder.layers:
            x = layer(x, turn)
        states: mx.array = averaged(x.astype(mx.float32).reshape(down, across, -1), self._pooled)
        states = states * states.shape[-1] ** 0.5
        if "std_bias" in self:
            states = (states - self.std_bias) * self.std_scale
        return states.astype(x.dtype)

    def _embedded(self, pixels: mx.array, down: int, across: int) -> mx.array:
        """Embed patches [1, patches, numbers], each with its place in both axes."""
        size, table = self._patch, self.patch_embedder.position_embedding_table
        patches = (2 * pixels - 1).reshape(down, size, across, size, COLOURS)
        patches = patches.transpose(0, 2, 1, 3, 4).reshape(1, down * across, -1)
        places = table[1, :down][:, None] + table[0, :across][None]
        embedded = self.patch_embedder.input_proj(patches.astype(table.dtype))
        placed: mx.array = embedded + places.reshape(1, down * across, -1)
        return placed


class Gemma4Layer(Module):
    def __init__(self, tower: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        width, eps = tower["hidden_size"], tower.get("rms_norm_eps", 1e-6)
        inner, bounded = tower["intermediate_size"], tower.get("use_clipped_linears", False)
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            self[f"{name}_layernorm"] = RMSNorm(width, eps)
        self.self_attn = Gemma4Attention(tower)
        self.mlp = Module()  # type: ignore[no-untyped-call]
        self.mlp.gate_proj = BoundedLinear(width, inner, bounded)
        self.mlp.up_proj = BoundedLinear(width, inner, bounded)
        self.mlp.down_proj = BoundedLinear(inner, width, bounded)

    def __call__(self, x: mx.array, turn: Any) -> mx.array:
        x = x + self.post_attention_layernorm(self.self_attn(self.input_layernorm(x), turn))
        inner = self.pre_feedforward_layernorm(x)
        gate = gelu_approx(self.mlp.gate_proj(inner))
        fed = self.mlp.down_proj(gate * self.mlp.up_proj(inner))
        output: mx.array = x + self.post_feedforward_layernorm(fed)
        return output


class Gemma4Attention(Module):
    def __init__(self, tower: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        width, head, eps = tower["hidden_size"], tower["head_dim"], tower.get("rms_norm_eps", 1e-6)
        heads, kept = tower["num_attention_heads"], tower["num_key_value_heads"]
        bounded = tower.get("use_clipped_linears", False)
        self.q_proj = BoundedLinear(width, heads * head, bounded)
        self.k_proj = BoundedLinear(width, kept * head, bounded)
        self.v_proj = BoundedLinear(width, kept * head, bounded)
        self.o_proj = BoundedLinear(heads * head, width, bounded)
        self.q_norm, self.k_norm = RMSNorm(head, eps), RMSNorm(head, eps)
        self._heads, self._kept, self._eps = heads, kept, eps

    def __call__(self, x: mx.array, turn: Any) -> mx.array:
        queries = turn(self.q_norm(heads_apart(self.q_proj(x), self._heads)))
        keys = turn(self.k_norm(heads_apart(self.k_proj(x), self._kept)))
        values = mx.fast.rms_norm(heads_apart(self.v_proj(x), self._kept), None, self._eps)
        seen = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=1.0)
        output: mx.array = self.o_proj(seen.transpose(0, 2, 1, 3).flatten(2))
        return output


class BoundedLinear(Module):
    """A product, whose inputs and outputs may be kept within bounds."""

    def __init__(self, inputs: int, outputs: int, bounded: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.linear = Linear(inputs, outputs, bias=False)
        for name in BOUNDS if bounded else ():
            self[name] = mx.array(float("-inf" if name.endswith("min") else "inf"))

    def __call__(self, x: mx.array) -> mx.array:
        if "input_min" not in self:
            product: mx.array = self.linear(x)
            return product
        product = self.linear(mx.clip(x, self.input_min, self.input_max))
        return mx.clip(product, self.output_min, self.output_max)


def rotations(down: int, across: int, head: int, base: float) -> tuple[mx.array, mx.array]:
    """Compute the cosines and sines of places: [patches, axes, a quarter of a head]."""
    quarter = head // (2 * AXES)
    speeds = mx.power(base, -mx.arange(quarter) / quarter)
    grids = mx.meshgrid(mx.arange(across), mx.arange(down))
    places = mx.stack([*grids], axis=-1).reshape(-1, AXES, 1)
    return mx.cos(places * speeds), mx.sin(places * speeds)


def turned(cosines: mx.array, sines: mx.array, states: mx.array) -> mx.array:
    """Turn heads [rows, heads, patches, numbers] by their places: half of them by each axis."""
    halves = states.reshape(*states.shape[:-1], AXES, 2, -1)
    one, other = halves[..., 0, :], halves[..., 1, :]
    cosines, sines = cosines.astype(states.dtype), sines.astype(states.dtype)
    both = [one * cosines - other * sines, other * cosines + one * sines]
    return mx.stack(both, axis=-2).reshape(states.shape)
