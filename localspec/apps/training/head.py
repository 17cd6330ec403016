"""The network of an EAGLE-3 head in PyTorch, as both engines run it.

Entry i of a text reads token i + 1 and the target's states at token i, and drafts token i + 2. A
draft goes on from there by states of its own:

    entry    0         1         2
    text     (x1, g0)  (x2, g1)  (x3, g2)   > x4
    draft                                   (x4, s) > x5   (x5, s') > x6
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from localspec.interfaces.trained_head import HeadShape

HEAD_WIDTH = 64


def shape_of(width: int, drafted: int) -> HeadShape:
    """Choose the sizes of a head for states of this width."""
    head_width = HEAD_WIDTH if width > HEAD_WIDTH else width // 2
    heads = -(-width // head_width)
    kv_heads = max(count for count in range(1, heads // 3 + 2) if heads % count == 0)
    return HeadShape(width, heads, kv_heads, head_width, -(-width // 24) * 64, drafted)


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of different lengths, filled up on the right: a row each, a column a token."""

    embedded: Tensor  # [texts, tokens, width]
    states: Tensor  # [texts, tokens, 3 * width], the target's
    candidates: Tensor  # [texts, tokens, count], numbers among the drafted tokens
    chances: Tensor  # of those to follow a token; 0 for what is not drafted
    follows: Tensor  # [texts, tokens]: whether the target's likeliest token follows in the text
    drafts: Tensor  # whether it can be drafted
    lengths: Tensor  # [texts]
    begins: Tensor  # [texts], the first token to be drafted

    @property
    def count(self) -> int:
        """The tokens that are learned from."""
        return int((self.lengths - self.begins).sum())


class Network:
    """The layers of a head, by weights of `HeadShape.sizes`."""

    def __init__(
        self,
        shape: HeadShape,
        weights: Mapping[str, Tensor],
        scale: Tensor,
        *,
        in_half: bool = False,
    ) -> None:
        """`scale` is what the states are multiplied by first: it is part of `fc` in a file.

        `in_half` multiplies matrices in bfloat16; all else stays in 32 bits.
        """
        self.shape, self.weights, self._scale, self._in_half = shape, weights, scale, in_half

    def linear(self, x: Tensor, name: str) -> Tensor:
        weight = self.weights[name]
        if self._in_half:
            return F.linear(x.bfloat16(), weight.bfloat16()).float()
        return F.linear(x, weight)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weights[name], self.shape.epsilon)

    def encode(self, states: Tensor) -> Tensor:
        return self.linear(states * self._scale, "fc")

    def side_by_side(self, embedded: Tensor, states: Tensor) -> Tensor:
        normed = self.norm(embedded, "blk.0.attn_norm"), self.norm(states, "blk.0.attn_norm_2")
        return torch.cat(normed, -1)

    def heads(self, x: Tensor, name: str) -> Tensor:
        """Compute queries, keys or values: [texts, heads, rows, head width]."""
        return self.linear(x, name).unflatten(-1, (-1, self.shape.head_width)).transpose(1, 2)

    def finish(self, attended: Tensor, states: Tensor) -> Tensor:
        """Add to states what was attended to, and the feed-forward part."""
        x = states + self.linear(attended, "blk.0.attn_output")
        normed = self.norm(x, "blk.0.ffn_norm")
        gate, up = self.linear(normed, "blk.0.ffn_gate"), self.linear(normed, "blk.0.ffn_up")
        return x + self.linear(F.silu(gate) * up, "blk.0.ffn_down")

    def logits(self, states: Tensor) -> Tensor:
        return self.linear(self.norm(states, "output_norm"), "output")


def rotate(x: Tensor, positions: Tensor, base: float) -> Tensor:
    """Rotate [texts, heads, rows, width] by the positions of the rows, [texts, rows]."""
    half = x.shape[-1] // 2
    speeds = base ** (-torch.arange(half, device=x.device) / half)
    angles = positions[:, None, :, None] * speeds
    cos, sin = angles.cos(), angles.sin()
    one, two = x.chunk(2, -1)
    return torch.cat((one * cos - two * sin, one * sin + two * cos), -1)


class Chains:
    """Drafts after several tokens of each text, a step at a time, as an engine drafts.

    A draft that begins at entry i reads entries up to i, and its own.
    """

    def __init__(self, network: Network, texts: Texts, begins: Tensor) -> None:
        """Begin a draft at each of these entries, [texts, drafts]."""
        self._network, self._texts = network, texts
        self.begins, self.depth = begins, 0
        self._own = list[tuple[Tensor, Tensor]]()  # keys and values of the steps
        encoded = network.encode(texts.states[:, :-1])
        places = torch.arange(encoded.shape[1], device=encoded.device)
        joined = network.side_by_side(texts.embedded[:, 1:], encoded)
        self._keys = self._rotated(joined, "blk.0.attn_k", places[None])
        self._values = network.heads(joined, "blk.0.attn_v")
        self._hidden = places > begins[..., None]  # [texts, drafts, entries]
        self._states = rows_of(encoded, begins)

    @property
    def judges(self) -> Tensor:
        """The token of each draft whose next token is drafted in this step."""
        return self.begins + self.depth + 1

    def step(self) -> Tensor:
        """Return the logits of the next token of each draft, which is taken to be the text's."""
        network, texts = self._network, self._texts
        read = self.judges.clamp(max=texts.embedded.shape[1] - 1)
        joined = network.side_by_side(rows_of(texts.embedded, read), self._states)
        places = self.begins + self.depth
        queries = self._rotated(joined, "blk.0.attn_q", places)
        if self.depth:
            keys = self._rotated(joined, "blk.0.attn_k", places)
            self._own.append((keys, network.heads(joined, "blk.0.attn_v")))
        self._states = network.finish(self._attend(queries), self._states)
        self.depth += 1
        return network.logits(self._states)

    def _rotated(self, joined: Tensor, name: str, places: Tensor) -> Tensor:
        network = self._network
        return rotate(network.heads(joined, name), places, network.shape.rope_base)

    def _attend(self, queries: Tensor) -> Tensor:
        shape, keys, values = self._network.shape, self._keys, self._values
        grouped = queries.unflatten(1, (shape.kv_heads, -1)) / math.sqrt(shape.head_width)
        scores = grouped @ keys[:, :, None].transpose(-1, -2)
        scores = scores.masked_fill(self._hidden[:, None, None], -math.inf)
        own = [(grouped * k[:, :, None]).sum(-1, keepdim=True) for k, _ in self._own]
        shares = torch.cat((scores, *own), -1).softmax(-1)
        count = keys.shape[2]
        attended = shares[..., :count] @ values[:, :, None]
        for at, (_, own_values) in enumerate(self._own, start=count):
            attended = attended + shares[..., at : at + 1] * own_values[:, :, None]
        return attended.flatten(1, 2).transpose(1, 2).flatten(2)

    def keep(self, drafts: Tensor) -> None:
        """Go on with some of the drafts of each text, by their numbers."""
        self.begins = self.begins.gather(1, drafts)
        self._hidden, self._states = rows_of(self._hidden, drafts), rows_of(self._states, drafts)
        self._own = [
            (columns_of(keys, drafts), columns_of(values, drafts)) for keys, values in self._own
        ]


def rows_of(x: Tensor, rows: Tensor) -> Tensor:
    """Pick rows of each text: [texts, all, ...] by [texts, some]."""
    return x[torch.arange(len(x), device=x.device)[:, None], rows]


def columns_of(x: Tensor, rows: Tensor) -> Tensor:
    """Pick rows of each text and head: [texts, heads, all, ...] by [texts, some]."""
    return rows_of(x.transpose(1, 2), rows).transpose(1, 2)
