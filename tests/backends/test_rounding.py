"""With `bit_exact`, quantised weights give the same logits in batches of any width."""

from __future__ import annotations

import subprocess
import sys

import pytest

from localspec_llamacpp.headers.footprint import inspect
from requantising import requantise
from tests import tiny
from tests.tiny_vocabulary import vocabulary

WIDTH = 256  # of a super-block of K-quants
# A process of its own: llama.cpp decides once, at its first product, how to multiply.
READ = """
import sys
from pathlib import Path
import numpy as np
from localspec.interfaces.backend import Options, Row
from localspec_llamacpp.loading import load

options = Options(threads=1, context=64, gpu_layers=0, tentative=32, bit_exact=True)
model = load(Path(sys.argv[1]), options)
text = np.arange(24, dtype=np.int32) % model.vocabulary


def read(width):
    model.truncate(0, 0)
    pieces = [text[at : at + width] for at in range(0, len(text), width)]
    return np.concatenate([model.forward([Row(0, p, len(p))])[0].copy() for p in pieces])


alone = read(1)
print([width for width in (2, 3, 4, 5, 8, 24) if not np.array_equal(read(width), alone)])
model.close()
"""


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A model whose matrices are wide enough for K-quants."""
    path, words = tmp_path_factory.mktemp("wide") / "wide.gguf", vocabulary("plain")
    metadata = {
        **tiny.ATTENTION,
        "feed_forward_length": WIDTH,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 64,
        "attention.value_length": 64,
        "rope.dimension_count": 64,
    }
    shape = tiny.Architecture((lambda weights, block: None,), metadata)
    writer = tiny.described(path, "llama", shape, words, WIDTH)
    weights = tiny.Weights(writer, 1)
    weights.add("token_embd.weight", weights.normal(len(words.tokens), WIDTH))
    shapes = {"attn_q": WIDTH, "attn_k": 128, "attn_v": 128, "attn_output": WIDTH}
    for name, outputs in {
        **shapes,
        **dict.fromkeys(("ffn_gate", "ffn_up", "ffn_down"), WIDTH),
    }.items():
        weights.matrix(f"blk.0.{name}", WIDTH, outputs)
    for name in ("blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"):
        weights.norm(name, WIDTH)
    weights.matrix("output", WIDTH, len(words.tokens))
    tiny.finish(writer)
    return path


@pytest.mark.parametrize("kind", ["q4_k_m", "q5_k_m", "q3_k_m", "q2_k", "q6_k", "q4_0", "q8_0"])
def test_logits_do_not_depend_on_how_many_tokens_are_read_at_once(wide, kind):
    path = wide.with_name(f"{kind}.gguf")
    requantise(wide, path, kind)
    assert inspect(path).uneven == ""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr[-2000:]
