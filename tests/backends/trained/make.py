"""Train the heads of these files: `make.py corpus|train|write FOLDER BLOCKS`, one after the other.

`train` needs torch and takes some minutes, the others the environment of the tests, all of them
the root of the repository in PYTHONPATH. A chain has three blocks; one block goes on by itself.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path

import numpy as np

NAMES = ("Ada", "Bert", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kai")
THINGS = ("apple", "bottle", "candle", "drum", "engine", "feather", "guitar", "hammer", "kettle")
PLACES = ["market", "old mill", "river", "school", "station", "garden", "harbour", "library"]
VERBS = ["takes", "brings", "carries", "sends", "sells", "returns"]
SENTENCES = (
    "{who} {does} the {what} to the {where}. ",
    "The {what} of {who} is at the {where} now. ",
    "Now {who} is at the {where} with the {what}. ",
)
STORIES, LENGTH, BATCH, MINUTES = 4000, 128, 12, 6
TOKENS, WIDTH, HEADS, HEAD, WIDE, WINDOW = 384, 64, 2, 32, 96, 64
TRUNK, DEPTH = 3, 3
WINDOWED = (1, 0, 1)  # layers, in the trunk and in the chain


def story(rng: random.Random) -> str:
    """Three people keep doing the same, so that a name tells what follows."""
    line = ""
    people = [
        {"who": who, "does": rng.choice(VERBS), "what": rng.choice(THINGS), "where": place}
        for who, place in zip(rng.sample(NAMES, 3), rng.sample(PLACES, 3), strict=True)
    ]
    while len(line) < 600:
        line += rng.choice(SENTENCES).format(**rng.choice(people))
    return line


def corpus(folder: Path) -> None:
    from tests import engines

    rng, tokenizer = random.Random(1), engines.target("llama", slots=1).tokenizer
    rows = [tokenizer.encode(story(rng))[:LENGTH] for _ in range(STORIES)]
    np.save(folder / "corpus.npy", np.array(rows, np.int32))


def train(folder: Path, count: int) -> None:
    """Train trunk and head together; the head by the trunk's states, which it leaves alone."""
    import torch
    from torch.nn import functional as F

    from tests.backends.trained.training import Weights

    torch.manual_seed(1)
    data = torch.from_numpy(np.load(folder / "corpus.npy")).long()
    held = Weights()
    weight, norm, linear = held.weight, held.norm, held.linear

    def turned(x, turns):
        half = turns // 2
        angles = torch.arange(x.shape[-2])[:, None] * 10000.0 ** (-torch.arange(half) / half)
        one, two, unturned = x[..., :half], x[..., half:turns], x[..., turns:]
        c, s = angles.cos(), angles.sin()
        return torch.cat((one * c - two * s, one * s + two * c, unturned), -1)

    def layer(at, x, seen=None):
        """Run a layer; rows see those of `seen` before them, if given, and themselves."""
        name, windowed = f"blk.{at}", WINDOWED[at % len(WINDOWED)]
        turns, length = HEAD if windowed else HEAD // 2, x.shape[1]

        def keys(rows):
            n = norm(rows, f"{name}.attn_norm")
            k = norm(linear(n, f"{name}.attn_k", HEAD), f"{name}.attn_k_norm")
            return turned(k, turns)[:, None], linear(n, f"{name}.attn_v", HEAD)[:, None]

        q = linear(norm(x, f"{name}.attn_norm"), f"{name}.attn_q", HEADS * HEAD)
        q = q.unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
        q = turned(norm(q, f"{name}.attn_q_norm"), turns)
        (k, v), (own_k, own_v) = keys(x if seen is None else seen), keys(x)
        back = torch.arange(length)[:, None] - torch.arange(length)
        visible = (back > 0) & (back < (WINDOW if windowed else length))
        scores = (q @ k.transpose(-1, -2)).masked_fill(~visible, -math.inf)
        scores = torch.cat((scores, (q * own_k).sum(-1, keepdim=True)), -1) / math.sqrt(HEAD)
        shares = scores.softmax(-1)
        mixed = shares[..., :-1] @ v + shares[..., -1:] * own_v
        x = x + linear(mixed.transpose(1, 2).flatten(2), f"{name}.attn_output", WIDTH)
        n = norm(x, f"{name}.ffn_norm")
        gated = F.silu(linear(n, f"{name}.ffn_gate", WIDE)) * linear(n, f"{name}.ffn_up", WIDE)
        return x + linear(gated, f"{name}.ffn_down", WIDTH)

    def later(x):
        return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)

    def joined(at, tokens, states):
        name = f"blk.{at}.nextn"
        pair = (norm(tokens, f"{name}.enorm"), norm(states, f"{name}.hnorm"))
        return linear(torch.cat(pair, -1), f"{name}.eh_proj", WIDTH)

    def logits(tokens):
        embedded = weight("token_embd.weight", TOKENS, WIDTH)[tokens]
        states = embedded
        for at in range(TRUNK):
            states = layer(at, states)
        yield linear(norm(states, "output_norm"), "output", TOKENS)
        embedded, states = embedded.detach(), later(states.detach())
        own = states
        for step in range(DEPTH):  # a block reads the text by the trunk's states, a draft by own
            at = TRUNK + min(step, count - 1)
            seen = joined(at, embedded, states)
            own = layer(at, joined(at, embedded, own), seen)
            n = F.rms_norm(own, own.shape[-1:], held["output_norm.weight"].detach(), 1e-6)
            yield n @ held["output.weight"].detach().T
            own = later(own)

    def losses(tokens):
        for at, found in enumerate(logits(tokens)):
            yield F.cross_entropy(found[:, at:-1].flatten(0, 1), tokens[:, 1 + at :].flatten())

    held.learn(data, BATCH, MINUTES, losses)
    np.savez(folder / f"{count}.npz", **{name: value.detach() for name, value in held.items()})


def write(folder: Path, count: int) -> None:
    """Write what was trained as Step-3.5, in 8 bits, and compress it."""
    import lzma

    from gguf import GGMLQuantizationType
    from gguf.quants import quantize

    from tests import tiny
    from tests.tiny_vocabulary import vocabulary

    shape = tiny.Architecture(
        (lambda *_: None,) * (TRUNK + count),
        {
            **tiny.ATTENTION,
            "expert_feed_forward_length": WIDE,
            "attention.sliding_window": WINDOW,
            "attention.sliding_window_pattern": list(WINDOWED) + list(WINDOWED)[:count],
            "nextn_predict_layers": count,
        },
    )
    path = folder / ("one.gguf" if count == 1 else "chain.gguf")
    writer, kind = tiny.described(path, "step35", shape, vocabulary()), GGMLQuantizationType.Q8_0
    for name, value in np.load(folder / f"{count}.npz").items():
        if value.ndim == 1:
            writer.add_tensor(name, value)
        else:
            writer.add_tensor(name, quantize(value, kind), raw_dtype=kind)
    tiny.finish(writer)
    Path(f"{path}.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))


if __name__ == "__main__":
    step, place, blocks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if step == "corpus":
        corpus(place)
    else:
        {"train": train, "write": write}[step](place, blocks)
