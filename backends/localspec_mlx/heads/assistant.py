"""Gemma 4's assistants: small layers that look at the keys and values of their target.

They keep none of their own. All tokens of a draft are drafted from the position of the newest one,
by the target's last state and then by states of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import mlx.core as mx
from mlx.nn.layers.base import Module
from mlx.nn.layers.embedding import Embedding
from mlx.nn.layers.linear import Linear
from mlx.nn.layers.normalization import RMSNorm
from mlx_lm.models.cache import make_prompt_cache

from localspec_mlx.call import RowSpans, device_counts
from localspec_mlx.heads.counting import GroupedReader, Rows
from localspec_mlx.heads.reader import Part
from localspec_mlx.heads.target import body, spread
from localspec_mlx.layers import Keys
from localspec_mlx.slots import CacheSlots, SlotGroup


class Looked(NamedTuple):
    """Keys and values of a target's layer, and a mask of those that are there."""

    shared_kv: tuple[mx.array, mx.array]
    mask: mx.array | str | None


class Clusters(Module):
    """Chooses some clusters of tokens, whose logits alone are computed."""

    def __init__(self, width: int, tokens: int, config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.centroids = Linear(width, config["num_centroids"], bias=False)
        self.token_ordering = mx.zeros(tokens, mx.int32)
        self._count = config["centroid_intermediate_top_k"]

    def logits(self, outputs: mx.array, embed: Embedding) -> mx.array:
        scores = self.centroids(outputs)
        chosen = mx.argpartition(scores, kth=-self._count, axis=-1)[..., -self._count :]
        members = self.token_ordering.reshape(scores.shape[-1], -1)[chosen]
        members = members.reshape(len(outputs), -1)
        logits = (embed(members) @ outputs[..., None]).squeeze(-1)
        return spread(logits, members, self.token_ordering.size)


class Inner(Module):
    def __init__(self, target: Module, text: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        like = target.layers[0]
        settings = type(like.config).from_dict(
            {**text, "num_kv_shared_layers": text["num_hidden_layers"]}
        )
        self.embed_tokens = Embedding(settings.vocab_size, settings.hidden_size)
        self.layers = [type(like)(settings, at) for at in range(settings.num_hidden_layers)]
        self.norm = RMSNorm(settings.hidden_size, settings.rms_norm_eps)


class Assistant(Module):
    def __init__(self, target: Module, config: Mapping[str, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        text = config["text_config"]
        width, reads = text["hidden_size"], config["backbone_hidden_size"]
        self.model = Inner(target, text)
        self.pre_projection = Linear(2 * reads, width, bias=False)
        self.post_projection = Linear(width, reads, bias=False)
        if config.get("use_ordered_embeddings"):
            self.masked_embedding = Clusters(width, text["vocab_size"], config)
        if not config.get("tie_word_embeddings", True):
            self.lm_head = Linear(width, text["vocab_size"], bias=False)
        inner = body(target)
        self._embed = inner.embed_tokens.__call__
        self._scale = inner.embed_scale
        # Of each kind of layer, the last with keys of its own.
        kept = inner.layers[: len(make_prompt_cache(target))]
        self.sources = {layer.layer_type: at for at, layer in enumerate(kept)}

    def __call__(
        self, tokens: mx.array, states: mx.array, looked: Mapping[str, Looked], position: mx.array
    ) -> tuple[mx.array, mx.array]:
        embedded = self._embed(tokens) * self._scale
        x = self.pre_projection(mx.concatenate([embedded, states], axis=-1))
        for layer in self.model.layers:
            keys = looked[layer.layer_type]
            x, _, _ = layer(x, keys.mask, shared_kv=keys.shared_kv, offset=position)
        x = self.model.norm(x)
        return self.post_projection(x), x

    def logits(self, outputs: mx.array) -> mx.array:
        logits: mx.array
        if "masked_embedding" in self:
            return self.masked_embedding.logits(outputs, self.model.embed_tokens)
        logits = (self.lm_head if "lm_head" in self else self.model.embed_tokens.as_linear)(outputs)
        return logits

    def sanitize(self, weights: Mapping[str, mx.array]) -> Mapping[str, mx.array]:
        """Drop an output that is tied; MLX has no index of 64 bits."""
        if "lm_head" not in self:
            weights = {name: array for name, array in weights.items() if "lm_head" not in name}
        ordering = "masked_embedding.token_ordering"
        if ordering in weights:
            weights = {**weights, ordering: weights[ordering].astype(mx.int32)}
        return weights


def target_keys(assistant: Assistant, target: CacheSlots, count: int) -> GroupedReader:
    """Draft with an assistant, a run for each group of slots that its target keeps together."""

    def read(group: SlotGroup, parts: Mapping[int, Part], _: CacheSlots) -> Rows:
        """Run all rows of a group, those that draft nothing as well: none has to be moved."""
        some = next(parts[slot] for slot in group.slots if slot in parts)
        rows = [parts.get(slot, some._replace(held=1, rejected=None)) for slot in group.slots]
        rejected = device_counts([row.rejected for row in rows])
        span = RowSpans(tuple(row.held - 1 for row in rows), (1,) * len(rows), rejected)
        return assistant(
            mx.stack([row.tokens[row.newest] for row in rows])[:, None],
            mx.stack([row.states[row.newest] for row in rows])[:, None],
            {kind: look(group.layers[at], span) for kind, at in assistant.sources.items()},
            span.begins + 1,
        )

    return GroupedReader(target, count, read, assistant.logits)


def look(layer: Any, newest: RowSpans) -> Looked:
    """Look at a layer of a target from the last token that it holds of each row."""
    keys: Keys = layer
    view = newest.view(keys.cells, keys.window)
    parts = [part[view.read] if view.straight else part for part in keys.parts]
    if packing := keys.packing:
        parts = packing.unpack(parts)
    # From the next position the window reaches one token less far back.
    return Looked((parts[0], parts[1]), view.mask(keys.window - 1 if keys.window else None, False))
