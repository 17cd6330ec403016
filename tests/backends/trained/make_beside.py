"""Train an EAGLE-3 and a DFlash head and their target: `make_beside.py train|write FOLDER`.

The corpus is that of `make.py`. `train` needs torch; the root of the repository is in PYTHONPATH.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

BATCH, MINUTES = 8, 4  # of the processor
TOKENS, WIDTH, HEADS, HEAD, WIDE = 384, 64, 2, 32, 96
TRUNK, READ, DEPTH = 4, (1, 2, 3), 3  # layers; before which heads read; steps of EAGLE-3
LAYERS, BLOCK, MASK, ANCHORS = 2, 6, 1, 4  # of DFlash


def train(folder: Path) -> None:
    """Train all together; the heads by the trunk's states, which they leave alone."""
    import torch
    from torch.nn import functional as F

    from tests.backends.trained.training import Weights

    torch.manual_seed(1)
    torch.set_num_threads(1)
    data = torch.from_numpy(np.load(folder / "corpus.npy")).long()
    held = Weights()
    weight, norm, linear = held.weight, held.norm, held.linear

    def turned(x, name, places):
        """Rotate [texts, heads, rows, HEAD] by the places of the rows, [texts, rows]."""
        half, paired = HEAD // 2, name.startswith("eagle3")
        angles = places[:, None, :, None] * 10000.0 ** (-torch.arange(half) / half)
        c, s = angles.cos(), angles.sin()
        one, two = x.unflatten(-1, (half, 2)).unbind(-1) if paired else x.chunk(2, -1)
        found = one * c - two * s, one * s + two * c
        return torch.stack(found, -1).flatten(-2) if paired else torch.cat(found, -1)

    def normed(x, name):
        return x if name.startswith("eagle3") else norm(x, name)

    def asked(x, name, places):
        q = linear(x, f"{name}.attn_q", HEADS * HEAD).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
        return turned(normed(q, f"{name}.attn_q_norm"), name, places)

    def keys(x, name, places):
        k = normed(linear(x, f"{name}.attn_k", HEAD), f"{name}.attn_k_norm")[:, None]
        return turned(k, name, places), linear(x, f"{name}.attn_v", HEAD)[:, None]

    def mixed(q, k, v, visible):
        scores = (q @ k.transpose(-1, -2)).masked_fill(~visible, -math.inf) / math.sqrt(HEAD)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    def fed(x, name):
        n = norm(x, f"{name}.ffn_norm")
        gated = F.silu(linear(n, f"{name}.ffn_gate", WIDE)) * linear(n, f"{name}.ffn_up", WIDE)
        return x + linear(gated, f"{name}.ffn_down", WIDTH)

    def places_of(x):
        return torch.arange(x.shape[1]).expand(x.shape[:2])

    def trunk(tokens):
        x = weight("trunk/token_embd.weight", TOKENS, WIDTH)[tokens]
        places, before = places_of(x), []
        visible = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        for at in range(TRUNK):
            before.append(x)
            name = f"trunk/blk.{at}"
            n = norm(x, f"{name}.attn_norm")
            found = mixed(asked(n, name, places), *keys(n, name, places), visible)
            x = fed(x + linear(found, f"{name}.attn_output", WIDTH), name)
        told = torch.cat([before[at] for at in READ], -1).detach()
        return linear(norm(x, "trunk/output_norm"), "trunk/output", TOKENS), told

    def eagle3(tokens, told):
        """Row i reads token i + 1 and the state at i; text by encoded states, a draft by own."""
        embedded = norm(
            held["trunk/token_embd.weight"].detach()[tokens[:, 1:]], "eagle3/blk.0.attn_norm"
        )
        states = linear(told[:, :-1], "eagle3/fc", WIDTH)
        places, name, own = places_of(embedded), "eagle3/blk.0", states
        back = torch.arange(embedded.shape[1])[:, None] - torch.arange(embedded.shape[1])

        def read(g):
            return torch.cat((embedded, norm(g, f"{name}.attn_norm_2")), -1)

        k, v = keys(read(states), name, places)
        for _ in range(DEPTH):
            x = read(own)
            own_k, own_v = keys(x, name, places)
            q = asked(x, name, places)
            scores = (q @ k.transpose(-1, -2)).masked_fill(back <= 0, -math.inf)
            scores = torch.cat((scores, (q * own_k).sum(-1, keepdim=True)), -1) / math.sqrt(HEAD)
            shares = scores.softmax(-1)
            found = (shares[..., :-1] @ v + shares[..., -1:] * own_v).transpose(1, 2).flatten(2)
            own = fed(own + linear(found, f"{name}.attn_output", WIDTH), name)
            logits = linear(norm(own, "eagle3/output_norm"), "eagle3/output", TOKENS)
            yield logits[:, : logits.shape[1] - 1], tokens[:, 2:]
            own = torch.cat((torch.zeros_like(own[:, :1]), own[:, :-1]), 1)

    def dflash(tokens, told):
        """Fill a block behind a token by the states before it."""
        rows = torch.arange(len(tokens)).repeat_interleave(ANCHORS)
        anchors = torch.randint(24, tokens.shape[1] - BLOCK, (len(rows),))
        g = norm(linear(told[rows], "dflash/fc", WIDTH), "dflash/enc.output_norm")
        places = anchors[:, None] + torch.arange(BLOCK)
        block = torch.full((len(rows), BLOCK), MASK)
        block[:, 0] = tokens[rows, anchors]
        x = held["trunk/token_embd.weight"].detach()[block]
        seen = torch.arange(told.shape[1]) < anchors[:, None]
        visible = torch.cat((seen, torch.ones(len(rows), BLOCK, dtype=torch.bool)), 1)
        for at in range(LAYERS):
            name = f"dflash/blk.{at}"
            n = norm(x, f"{name}.attn_norm")
            pairs = zip(keys(g, name, places_of(g)), keys(n, name, places), strict=True)
            k, v = (torch.cat(pair, 2) for pair in pairs)
            found = mixed(asked(n, name, places), k, v, visible[:, None, None])
            x = fed(x + linear(found, f"{name}.attn_output", WIDTH), name)
        n = norm(x, "dflash/output_norm")[:, 1:]
        yield n @ held["trunk/output.weight"].detach().T, tokens[rows[:, None], places[:, 1:]]

    def losses(tokens):
        logits, told = trunk(tokens)
        yield F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        for found, right in (*eagle3(tokens, told), *dflash(tokens, told)):
            yield F.cross_entropy(found.flatten(0, 1), right.flatten())

    held.learn(data, BATCH, MINUTES, losses)
    np.savez(folder / "beside.npz", **{name: value.detach() for name, value in held.items()})


def write(folder: Path) -> None:
    """Write the three files in 8 bits, and compress them."""
    import lzma

    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    from tests import tiny
    from tests.tiny_vocabulary import vocabulary

    held = dict(np.load(folder / "beside.npz"))
    drafted = np.unique(np.load(folder / "corpus.npy")).astype(np.int64)
    held["eagle3/output.weight"] = held["eagle3/output.weight"][drafted]
    read = {"target_layers": list(READ)}
    kinds = {
        "trunk": ("qwen3", TRUNK, {}),
        "eagle3": ("eagle3", 1, {**read, "target_hidden_size": WIDTH}),
        "dflash": ("dflash", LAYERS, {**read, "block_size": BLOCK}),
    }
    kind = GGMLQuantizationType.Q8_0
    for part, (architecture, layers, more) in kinds.items():
        shape = tiny.Architecture((lambda *_: None,) * layers, {**tiny.ATTENTION, **more})
        path = folder / f"{part}.gguf"
        writer = tiny.described(path, architecture, shape, vocabulary())
        for name, value in held.items():
            if name.startswith(f"{part}/") and value.ndim == 1:
                writer.add_tensor(name.partition("/")[2], value)
            elif name.startswith(f"{part}/"):
                writer.add_tensor(name.partition("/")[2], quantize(value, kind), raw_dtype=kind)
        if part == "eagle3":
            writer.add_tensor("d2t", drafted)
        if part == "dflash":
            writer.add_mask_token_id(MASK)
        tiny.finish(writer)
        Path(f"{path}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))


if __name__ == "__main__":
    {"train": train, "write": write}[sys.argv[1]](Path(sys.argv[2]))
