"""GGUF files that cannot become an MLX folder: each is refused in one line, and nothing is left."""

from __future__ import annotations

import math
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlx_lm")

from localspec.errors import ModelFileError, UsageError
from mlx_conversion.convert import OutputFormat
from tests import engines
from tests.backends.gguf_copies import FREQUENCIES, Stop, biases, copied, made, numbers, stop

NATURAL = OutputFormat()

# What cannot be converted, by what is said of it.
KEYS = {
    "is a mixture of 8 experts": {"llama.expert_count": 8},
    "is cut into 3 parts: join them": {"split.count": 3},
    "has no llama.context_length": {"llama.context_length": None},
    "has a llama.block_count of 0": {"llama.block_count": 0},
    "lacks the tensor blk.3.": {"llama.block_count": 4_000_000},
    "has a llama.block_count that is not a whole number": {"llama.block_count": 2.5},
    "has a llama.rope.freq_base that is not a finite": {"llama.rope.freq_base": math.inf},
    "has a llama.rope.dimension_count of 16, but heads of 32": {"llama.rope.dimension_count": 16},
    "has 2 heads of 32 over 3": {"llama.attention.head_count_kv": 3},
    "has a llama.attention.scale": {"llama.attention.scale": 0.5},
    "stretches positions by 'yarn'": {"llama.rope.scaling.type": "yarn"},
    "has a llama.rope.scaling.attn_factor": {"llama.rope.scaling.attn_factor": 1.2},
    "has a vocabulary of kind 'bert'": {"tokenizer.ggml.model": "bert"},
    "splits text by 'martian'; what can be converted is ": {"tokenizer.ggml.pre": "martian"},
    "has no tokenizer.ggml.eos_token_id": {"tokenizer.ggml.eos_token_id": None},
    "eos_token_id of 384, but 384 tokens": {"tokenizer.ggml.eos_token_id": 384},
    "but has no tokenizer.ggml.bos_token_id": {
        "tokenizer.ggml.bos_token_id": None,
        "tokenizer.ggml.add_bos_token": True,
    },
    "add_bos_token that is neither true nor false": {"tokenizer.ggml.add_bos_token": 1},
    "has 384 tokens, but 2 token types": {"tokenizer.ggml.token_type": [1, 1]},
    "token_type that is not an array": {"tokenizer.ggml.token_type": 1},
    "merges 'e' and 'zz', but lacks a token": {"tokenizer.ggml.merges": ["e zz"]},
    "tokens that is not an array of texts": {"tokenizer.ggml.tokens": [1] * 384},
    "has 384 tokens, of which only 1 differ": {"tokenizer.ggml.tokens": ["a"] * 384},
    "has a token of 2,000 letters": {"tokenizer.ggml.tokens": ["a" * 2000] * 384},
    "has a token with a zero byte": {"tokenizer.ggml.tokens": [f"{n}\0" for n in range(384)]},
    "has a tensor token_embd.weight of shape [384, 64], not [2, 64]": {
        "tokenizer.ggml.tokens": ["a", "b"]
    },
}
TENSORS = {
    "lacks the tensor output_norm.weight": {"output_norm.weight": None},
    "lacks the tensor token_embd.weight": {"token_embd.weight": None},
    "lacks the tensor blk.1.ffn_up.weight": {"blk.1.ffn_up.weight": None},
    "has a tensor blk.0.ffn_gate_inp.weight, which llama has no place for": {
        "blk.0.ffn_gate_inp.weight": numbers(8, 64)
    },
    "lacks the tensor blk.0.attn_output.bias": biases("attn_q", "attn_k", "attn_v"),
    "blk.0.attn_q.weight of shape [32, 64], not [64, 64]": {"blk.0.attn_q.weight": numbers(32, 64)},
    "has values in blk.2.attn_v.weight that are not finite": {
        "blk.2.attn_v.weight": np.full((32, 64), np.nan, np.float32)
    },
    "up to 1e+05 in output_norm.weight, and float16 ends at 6.55e+04: choose --dtype bfloat16": {
        "output_norm.weight": np.full(64, -1e5, np.float32)
    },
    "output_norm.weight of I32, which cannot be unpacked": {
        "output_norm.weight": np.ones(64, np.int32)
    },
    "has values in rope_freqs.weight that follow no rule": {
        FREQUENCIES: np.linspace(1, 8, 16, dtype=np.float32)
    },
}
CHANGES = {text: (keys, {}) for text, keys in KEYS.items()}
CHANGES |= {text: ({}, tensors) for text, tensors in TENSORS.items()}


def refusal(source, target, wishes=NATURAL):
    with pytest.raises(ModelFileError) as caught:
        made(source, target, wishes)
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 500
    assert list(target.parent.iterdir()) == []
    return line


@pytest.mark.parametrize("said", CHANGES)
def test_what_cannot_be_converted_is_refused_by_name(said, tmp_path):
    (tmp_path / "to").mkdir()
    source = copied(engines.tiny("llama"), tmp_path / "broken.gguf", *CHANGES[said])
    line = refusal(source, tmp_path / "to" / "folder")
    assert line.startswith("broken.gguf ")
    assert said in line


def test_architectures_that_are_not_converted_are_told_those_that_are(tmp_path):
    (tmp_path / "to").mkdir()
    line = refusal(engines.tiny("gemma3"), tmp_path / "to" / "folder")
    assert line.endswith("has the architecture 'gemma3'; llama, qwen2, qwen3 can be converted")


FILES = {
    "is empty: it has 0 of at least 24 bytes": b"",
    "is not GGUF: it starts with b'\\x89PNG'": b"\x89PNG" + bytes(36),
    "is GGUF version 9": b"GGUF\x09" + bytes(40),
    "promises 4,611,686,018,427,387,904 tensors": b"GGUF\3\0\0\0" + b"\0\0\0\0\0\0\0\x40" * 2,
}


@pytest.mark.parametrize("said", FILES)
def test_a_file_that_is_no_gguf_is_refused(said, tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "file.gguf").write_bytes(FILES[said])
    assert said in refusal(tmp_path / "file.gguf", tmp_path / "to" / "folder")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (Path.mkdir, "is a directory: give the path of a .gguf file"),
        (os.mkfifo, "is not a regular file: give the path of a .gguf file"),
        (lambda path: None, "does not exist: check the path"),
    ],
)
def test_what_is_no_file_is_refused_without_waiting_for_it(make, said, tmp_path):
    (tmp_path / "to").mkdir()
    make(tmp_path / "thing")
    assert said in refusal(tmp_path / "thing", tmp_path / "to" / "folder")


def test_a_text_that_is_not_utf_8_is_refused_rather_than_changed(tmp_path):
    (tmp_path / "to").mkdir()
    content = engines.tiny("llama").read_bytes()
    (tmp_path / "broken.gguf").write_bytes(content.replace(b"gpt2", b"gp\xff2", 1))
    line = refusal(tmp_path / "broken.gguf", tmp_path / "to" / "folder")
    assert line == "broken.gguf has b'gp\\xff2' in tokenizer.ggml.model, which is not UTF-8"


@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_header_is_refused_in_one_line_or_harmless(seed, tmp_path):
    dice = random.Random(seed)
    content = bytearray(engines.tiny("llama").read_bytes()[:14_000])
    content += bytes(2_000_000)
    for _ in range(dice.choice((1, 2, 8))):
        at = dice.choice((dice.randrange(4, 24), dice.randrange(24, 1200), dice.randrange(14_000)))
        content[at] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
    del content[dice.choice((len(content), dice.randrange(14_000))) :]
    (tmp_path / "damaged.gguf").write_bytes(content)
    begun = time.monotonic()
    with pytest.raises((ModelFileError, Stop)) as caught:
        made(tmp_path / "damaged.gguf", tmp_path / "folder", check=stop)
    assert str(caught.value).isprintable()
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (OutputFormat(bits=3), "bits is 3; it must be 4 or 8"),
        (OutputFormat(bits=4, group_size=48), "group size is 48"),
        (OutputFormat(dtype="int8"), "dtype 'int8' is unknown"),
    ],
)
def test_wishes_that_cannot_be_granted_are_refused_by_name(wishes, said, tmp_path):
    with pytest.raises(UsageError, match=said):
        made(engines.tiny("llama"), tmp_path / "folder", wishes)


def test_groups_that_do_not_divide_a_matrix_are_refused_before_anything_is_written(tmp_path):
    (tmp_path / "to").mkdir()
    wishes = OutputFormat(bits=4, group_size=64)
    line = refusal(engines.tiny("llama"), tmp_path / "to" / "folder", wishes)
    assert "ffn_down.weight of 96 columns, which groups of 64 do not divide" in line
