"""Models with random weights, and drafting heads of each kind for them.

MTP and EAGLE-3 heads and the assistant, which pass embeddings on, are often right. DFlash heads
draft noise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.drafting import assistant
from benchmarks.drafting.writer import (
    HEADS,
    LAYERS,
    SOFT,
    VOCABULARY,
    WIDE,
    WIDTH,
    Array,
    ModelWriter,
    Numbers,
    embeddings,
)

KINDS = ("mtp", "mtp alone", "assistant", "eagle3", "dflash")  # inside, and in files of their own
DRAFTED, BLOCK = 8192, 8  # tokens that EAGLE-3 can draft; of DFlash
READ = [2, 5, 8]  # layers, by EAGLE-3 and DFlash
EAGLE3: Numbers = {
    "target_hidden_size": WIDTH,
    "target_layers": READ,
    "attention.head_count_kv": HEADS,
}
DFLASH: Numbers = {"block_size": BLOCK, "target_layers": READ}
MTP: Numbers = {"nextn_predict_layers": 1, "expert_feed_forward_length": WIDE}


def write(kind: str, folder: Path) -> tuple[Path, Path]:
    """Write a model and a head of one of the kinds, which may be the same file."""
    target, head = folder / f"{kind}-target.gguf", folder / f"{kind}-head.gguf"
    if kind == "assistant":
        assistant.write_head(head, assistant.write_target(target))
        return target, head
    inside = kind.startswith("mtp")
    output = write_target(target, "hy_v3" if inside else "qwen3", inside=kind == "mtp")
    if kind == "mtp":
        return target, target
    if inside:
        file = ModelWriter(head, "hy_v3", LAYERS + 1, MTP)
        file.drafting_block(LAYERS)
        file.add("token_embd.weight", embeddings())
        file.norms("output_norm")
        file.add("output.weight", output)
        file.close()
    else:
        write_eagle3(head, output) if kind == "eagle3" else write_dflash(head)
    return target, head


def write_target(path: Path, architecture: str, *, inside: bool) -> Array:
    """Write a model, with a head inside if wished; return its output matrix."""
    more = {**MTP, "nextn_predict_layers": int(inside)} if architecture == "hy_v3" else {}
    file = ModelWriter(path, architecture, LAYERS + inside, more)
    file.add("token_embd.weight", embeddings())
    for at in range(LAYERS):
        file.block(at)
    if inside:
        file.drafting_block(LAYERS)
    file.norms("output_norm")
    output = file.matrix("output", WIDTH, VOCABULARY, 4.0)
    file.close()
    return output


def write_eagle3(path: Path, output: Array) -> None:
    """Write a layer that attends to the newest token most, and passes its embedding on."""
    file = ModelWriter(path, "eagle3", 1, EAGLE3)
    file.matrix("fc", len(READ) * WIDTH, WIDTH, SOFT)
    file.norms("output_norm", "blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm")
    nothing, passed = np.zeros((WIDTH, WIDTH), np.float32), np.eye(WIDTH, dtype=np.float32)
    looking = file.normal(WIDTH, WIDTH) * 1.5 * WIDTH**-0.5
    for name, values in {"q": looking, "k": looking, "v": passed}.items():
        file.add(f"blk.0.attn_{name}.weight", np.concatenate((values, nothing), axis=1))
    file.add("blk.0.attn_output.weight", passed)
    file.feed_forward("blk.0")
    drafted = np.arange(0, VOCABULARY, VOCABULARY // DRAFTED)
    file.table("d2t", drafted)
    file.add("output.weight", output[drafted])
    file.close()


def write_dflash(path: Path) -> None:
    file = ModelWriter(path, "dflash", 2, DFLASH)
    file.matrix("fc", len(READ) * WIDTH, WIDTH)
    file.norms("output_norm", "enc.output_norm")
    for at in range(2):
        file.block(at)
    file.close()
