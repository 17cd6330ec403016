"""Bad GGUF headers: each is refused by one line, before the engine can die of it."""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from pathlib import Path

import pytest

from localspec.errors import ModelFileError
from localspec_llamacpp import inspect
from tests.backends.gguf_files import (
    TOKENS,
    VOCABULARY,
    Numbers,
    Plain,
    Typed,
    encoded,
    gguf,
    model,
    pairs,
    refusal,
    text,
)

MANY = 1 << 62


def started(tensors: int, keys: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def array(kind: int, count: int) -> bytes:
    return text("a") + struct.pack("<IIQ", 9, kind, count)


FORMATS = {
    "is empty: it has 0 of at least 24 bytes": b"",
    "is cut short: it has 6 of at least 24 bytes": b"GGUF\3\0",
    "is a git-lfs pointer, not the weights": b"version https://git-lfs.github.com/spec/v1\noid x",
    "is a safetensors file": struct.pack("<Q", 20) + b'{"__metadata__":{}}   ',
    "is a zip archive": b"PK\3\4" + bytes(40),
    "is a web page": b"\n<!DOCTYPE html><html><head><title>Sign in",
    "is a GGML file from before GGUF": b"tjgg" + bytes(40),
    "it starts with 64 zero bytes": bytes(100),
    "it starts with b'\\x89PNG', not b'GGUF'": b"\x89PNG" + bytes(40),
    "is big endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "is GGUF version 1,": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "is GGUF version 4;": b"GGUF" + struct.pack("<IQQ", 4, 0, 0),
}
COUNTS = {
    "promises 4,611,686,018,427,387,904 keys, it has room for 2": started(0, MANY, bytes(40)),
    "promises 4,611,686,018,427,387,904 tensors, it has room for 2": started(MANY, 0, bytes(40)),
    "promises 20,000 keys, at most 16,384 are read": started(0, 20_000, bytes(400_000)),
    "it has a key of 4,611,686,018,427,387,904 bytes": started(0, 1, struct.pack("<QQ", MANY, 0)),
    "is cut short: its header promises 4,611,686,018,427,387,949 bytes or more, the file has 61": (
        started(0, 1, text("a") + struct.pack("<IQ", 8, MANY) + bytes(16))
    ),
    "promises 36,893,488,147,419,103,281 bytes or more": started(0, 1, array(8, MANY)),
    "promises 18,446,744,073,709,551,665 bytes or more": started(0, 1, array(4, MANY)),
    "promises 4,611,686,018,427,387,961 bytes": started(
        0, 1, array(8, 1) + struct.pack("<Q", MANY)
    ),
    "a is an array of arrays": started(0, 1, array(9, 1) + bytes(40)),
    "a is an array of kind 13": started(0, 1, array(13, 1) + bytes(40)),
    "a is of kind 77": started(0, 1, text("a") + struct.pack("<IQ", 77, 0)),
    "has the key 'a' twice": started(0, 2, (text("a") + encoded(1)) * 2),
    "has an empty key": started(0, 1, text("") + encoded(1)),
    "a key is not UTF-8 at byte 1 of 2": started(0, 1, text(b"a\xff") + encoded(1)),
}


def record(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return started(1, 0, text(name) + axes + struct.pack("<IQ", kind, offset) + bytes(64))


def norms(*names: str, offset: int = 32) -> bytes:
    axes = struct.pack("<IQI", 1, 8, 0)
    records = [text(name) + axes + struct.pack("<Q", i * offset) for i, name in enumerate(names)]
    return started(len(names), 0, b"".join(records) + bytes(200))


WEIGHTS = {
    "tensor a has 5 dimensions; 1 to 4 are read": record("a", (1, 1, 1, 1, 1)),
    "tensor a has 0 dimensions": record("a", ()),
    "tensor a has the shape [4294967296, 4294967296]": record("a", (1 << 32, 1 << 32)),
    "tensor a has the shape [8, 0]": record("a", (8, 0)),
    "has tensor a of type 99": record("a", (8,), 99),
    "has tensor a of type 31": record("a", (8,), 31),
    "tensor a has rows of 33 numbers, not a multiple of Q8_0's 32": record("a", (33, 2), 8),
    "a tensor name of 64 bytes; at most 63 are read": record("a" * 64, (8,)),
    "is broken: a tensor name is not UTF-8": started(1, 0, text(b"\xff") + bytes(64)),
    "it has the tensor a twice": norms("a", "a"),
    "tensor b lies at 64, not at 32": norms("a", "b", offset=64),
    "tensor b lies at 40, not at 32": norms("a", "b", offset=40),
    "tensor b lies at 16, not at 32": norms("a", "b", offset=16),
    "stores output_norm.weight as F16, but llama.cpp needs F32": model(
        tensors=[("output_norm.weight", (64,), 1, 128)]
    ),
    "stores blk.0.attn_q_norm.weight as Q8_0": model(
        tensors=[("blk.0.attn_q_norm.weight", (64, 2), 8, 136)]
    ),
    "stores output.weight as I32, which is no format for weights": model(
        tensors=[("output.weight", (64, 16), 26, 4096)]
    ),
    "has 16 tokens, but 17 rows in token_embd.weight": model(
        tensors=[("token_embd.weight", (64, 17), 1, 2176)]
    ),
}


BROKEN = FORMATS | COUNTS | WEIGHTS


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_file_is_refused_at_once_by_what_is_wrong(message: str, tmp_path: Path) -> None:
    began = time.perf_counter()
    assert message in refusal(tmp_path, BROKEN[message])
    assert time.perf_counter() - began < 1


def test_more_strings_than_any_vocabulary_has_are_not_even_counted(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(started(0, 1, array(8, 5_000_000)))
    os.truncate(path, 50_000_000)
    with pytest.raises(ModelFileError, match="it has more than 4,194,304 strings, at a"):
        inspect(path)


def test_more_text_than_any_header_has_is_not_kept(tmp_path: Path) -> None:
    pairs = [text(f"a{key}") + encoded("a" * (1 << 20)) for key in range(17)]
    assert "more than 16,777,216 bytes of text, at a16" in refusal(
        tmp_path, started(0, 17, b"".join(pairs))
    )


def test_tokens_of_many_megabytes_are_not_read(tmp_path: Path) -> None:
    path, size = tmp_path / "model.gguf", 65 << 20
    name = "tokenizer.ggml.tokens"
    others = {"general.architecture": "llama"} | VOCABULARY
    content = gguf({key: value for key, value in others.items() if key != name})
    tokens = text(name) + struct.pack("<IIQQ", 9, 8, 1, size)
    path.write_bytes(started(0, len(others), content[24:] + tokens))
    os.truncate(path, size + 10_000)
    with pytest.raises(
        ModelFileError, match=r"bytes of tokenizer\.ggml\.tokens; at most 67,108,864"
    ):
        inspect(path)


def test_a_truncated_file_says_both_sizes_and_what_to_do(tmp_path: Path) -> None:
    content = model()
    assert refusal(tmp_path, content[:-100]) == (
        f"model.gguf is cut short: its header promises {len(content):,} bytes, "
        f"the file has {len(content) - 100:,}: download it again"
    )


def test_a_path_that_is_no_file_says_what_it_is(tmp_path: Path) -> None:
    cases = [(".", "is a directory: give the path of a .gguf file"), ("none.gguf", "not exist")]
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe.gguf")
        (tmp_path / "file").touch()
        cases += [("pipe.gguf", "is not a regular file"), ("file/model.gguf", "cannot be read")]
    for name, message in cases:
        with pytest.raises(ModelFileError, match=message):
            inspect(tmp_path / name)


VOCABULARIES: dict[str, Numbers] = {
    "has no tokenizer.ggml.model": {"/tokenizer.ggml.model": None},
    "has a vocabulary of kind 'bogus'": {"/tokenizer.ggml.model": "bogus"},
    "has tokenizer.ggml.model as u32, not string": {"/tokenizer.ggml.model": 1},
    "has 0 tokens in tokenizer.ggml.tokens": {"/tokenizer.ggml.tokens": Typed("str", [])},
    "has tokenizer.ggml.tokens as an array of u32, not of string": {"/tokenizer.ggml.tokens": [1]},
    "has 16 tokens, but 15 tokenizer.ggml.token_type": {
        "/tokenizer.ggml.token_type": Typed("i32", [1] * 15)
    },
    "has 16 tokens, but 17 tokenizer.ggml.scores": {"/tokenizer.ggml.scores": [1.0] * 17},
    "has no tokenizer.ggml.merges": {"/tokenizer.ggml.merges": None},
    "has the token 'a' 2 times": {"/tokenizer.ggml.tokens": [*TOKENS[:-1], "a"]},
    "has the token 'o' 2 times": {"/tokenizer.ggml.tokens": [*TOKENS[:-2], "o\0x", "o\0y"]},
    "has the token '[EMPTY_0]' 2 times": {
        "/tokenizer.ggml.tokens": ["", *TOKENS[1:-1], "[EMPTY_0]"]
    },
    "has tokenizer.ggml.eos_token_id 16 of 16 tokens": {"/tokenizer.ggml.eos_token_id": 16},
    "wants each text to have a token for bos": {
        "/tokenizer.ggml.add_bos_token": True,
        "/tokenizer.ggml.pre": "glm4",
    },
    "lacks the tokens of 241 of the 256 bytes": {"/tokenizer.ggml.model": "llama"},
    "has no token for b'\\n' alone": {
        "/tokenizer.ggml.model": "rwkv",
        "/tokenizer.ggml.tokens": [*TOKENS[1:], "p"],
    },
    "has no token for b'x' alone": {
        "/tokenizer.ggml.model": "rwkv",
        "/tokenizer.ggml.tokens": [*TOKENS[2:], "\\x0a", "xa"],
    },
    "has a tokenizer.chat_template of 1,048,577 bytes": {
        "/tokenizer.chat_template": "a" * ((1 << 20) + 1)
    },
    "has general.architecture None": {"/general.architecture": None},
    "has general.architecture as u32, not string": {"/general.architecture": 1},
    "has general.architecture 'a b'": {"/general.architecture": "a b"},
    "has general.architecture '\\x1b": {"/general.architecture": "\x1b" * 2000},
    "is a bert model, which does not continue text": {"/general.architecture": "bert"},
    "is a LoRA adapter, not a model": {"/general.type": "adapter"},
    "aligns its weights to 24 bytes": {"/general.alignment": 24},
    "aligns its weights to 0 bytes": {"/general.alignment": 0},
    "aligns its weights to 8 bytes": {"/general.alignment": 8},
    "has general.alignment as u64, not u32": {"/general.alignment": Typed("u64", 32)},
}


@pytest.mark.parametrize("message", VOCABULARIES)
def test_a_vocabulary_the_engine_would_die_of_is_refused(message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path, gguf(pairs(changes=VOCABULARIES[message])))


# Numbers that make llama.cpp abort, divide by zero or never return

SSM: dict[str, Plain] = {
    "ssm.conv_kernel": 4,
    "ssm.inner_size": 128,
    "ssm.state_size": 16,
    "ssm.time_step_rank": 8,
    "ssm.group_count": 1,
}
EXPERTS: dict[str, Plain] = {"expert_count": 8, "expert_used_count": 2}
WINDOW: dict[str, Plain] = {"attention.sliding_window": 512}
LATENT: dict[str, Plain] = {
    "attention.key_length": 72,
    "attention.value_length": 64,
    "attention.kv_lora_rank": 64,
    "attention.key_length_mla": 32,
    "attention.value_length_mla": 16,
    "rope.dimension_count": 16,
}
REFUSED: list[tuple[str, Numbers, str]] = [
    ("llama", {"block_count": 0}, "block_count 0, but 1 to 512"),
    ("llama", {"block_count": 513}, "block_count 513, but 1 to 512"),
    ("llama", {"block_count": Typed("i32", 2)}, "block_count as i32, not u32"),
    ("llama", {"nextn_predict_layers": 3}, "nextn_predict_layers 3, but the model has 2 layers"),
    ("llama", {"context_length": 0}, "context_length 0, but it must be at least 1"),
    ("llama", {"embedding_length": 0}, "embedding_length 0, but it must be at least 1"),
    ("llama", {"embedding_length": 65}, "embedding_length 65, but it must be a multiple of 4"),
    ("llama", {"attention.head_count": 0}, "attention.head_count 0, but it must be at least 1"),
    ("llama", {"attention.head_count_kv": 0}, "each layer of llama attends"),
    ("llama", {"attention.head_count_kv": 3}, "head_count_kv 3, but it must divide 4 heads"),
    ("llama", {"attention.head_count_kv": 8}, "head_count_kv 8, but it must divide 4 heads"),
    ("llama", {"attention.head_count_kv": [2, 2, 2]}, "for 3 layers, but the model has 2"),
    ("llama", {"attention.head_count_kv": [2, 0]}, "each layer of llama attends"),
    ("llama", {"attention.head_count_kv": Typed("i32", [2, -1])}, "must not be negative"),
    ("llama", {"attention.head_count": [4] * 600}, "at most 512 are read"),
    ("llama", {"attention.key_length": 8}, "values are of length 16"),
    ("llama", {"attention.key_length": 0, "attention.value_length": 0}, "it must be at least 1"),
    ("llama", EXPERTS | {"expert_count": 1025}, "at most 1024 can be read"),
    ("llama", EXPERTS | {"expert_used_count": 9}, "expert_used_count 9, but there are 8 experts"),
    ("llama", EXPERTS | {"expert_used_count": [2, 0]}, "there are 8 experts to use"),
    ("llama", {"expert_used_count": 1}, "expert_used_count 1, but there are 0 experts"),
    ("llama", {"expert_group_count": 2}, "expert_group_count 2, but there are no experts"),
    ("llama", EXPERTS | {"expert_group_count": 3}, "it must divide 8 experts"),
    ("llama", EXPERTS | {"expert_group_count": 4}, "group_used_count 0, but there are 4 groups"),
    ("llama", EXPERTS | {"expert_gating_func": 5}, "expert_gating_func 5, but 0 to 4 are known"),
    ("dots1", EXPERTS, "expert_gating_func 0, but 1 to 4 are known"),
    ("llama", {"rope.scaling.type": "bogus"}, "none, linear, yarn, longrope are known"),
    ("llama", {"attention.layer_norm_rms_epsilon": -1.0}, "it must be a small positive number"),
    ("llama", {"attention.layer_norm_rms_epsilon": float("nan")}, "a small positive number"),
    ("llama", {"rope.dimension_count": 8}, "llama rotates whole heads of 16"),
    ("phi3", {"rope.dimension_count": 32}, "it must be even and at most a head's 16"),
    ("phi3", {"rope.dimension_count": 3}, "it must be even and at most a head's 16"),
    ("phi3", {"rope.dimension_count": 0}, "rope.dimension_count 0, but it must be at least 2"),
    ("qwen2vl", {"rope.dimension_sections": [0, 0, 0, 0]}, "one of the first three is needed"),
    ("qwen2vl", {"rope.dimension_sections": [8, 8, 8, 0]}, "not exceed a head's 16"),
    ("deepseek2", LATENT, "it must be kv_lora_rank 64 and 16 rotated ones"),
    ("gemma2", {"attention.sliding_window_pattern": 1}, "without a windowed layer"),
    ("gemma2", {"attention.sliding_window": 1 << 31}, "at most 16,777,216 tokens"),
    ("gemma2", {"attention.key_length_swa": 8}, "all layers must be alike: 16"),
    (
        "gemma4",
        WINDOW
        | {"attention.shared_kv_layers": 1}
        | {"attention.sliding_window_pattern": [True, False]},
        "those that share a cache find none",
    ),
    ("llama4", {"attention.sliding_window": 0}, "llama4 cannot do without"),
    ("lfm2", {"attention.head_count_kv": [2, 2]}, "2 of them attend and 0 recur"),
    ("jamba", {"attention.head_count_kv": [0, 0]}, "0 of them attend and 2 recur"),
    ("qwen35", SSM | {"full_attention_interval": 0}, "full_attention_interval 0, but"),
    ("qwen3next", SSM | {"full_attention_interval": 2, "ssm.group_count": 3}, "it must divide"),
    ("mamba2", SSM | {"ssm.group_count": 0}, "ssm.group_count 0, but it must divide"),
    ("mamba2", SSM | {"ssm.time_step_rank": 7}, "ssm.time_step_rank 7, but it must divide"),
    ("rwkv7", {"wkv.head_size": 0}, "wkv.head_size 0, but it must divide"),
    ("rwkv7", {"wkv.head_size": 16, "token_shift_count": 1}, "token_shift_count 1, but it must"),
    ("nanbeige", {"num_loops": 1 << 31}, "1 to 512 layers can be run"),
]


@pytest.mark.parametrize(("architecture", "numbers", "message"), REFUSED)
def test_numbers_the_engine_would_die_of_are_refused(
    architecture: str, numbers: Numbers, message: str, tmp_path: Path
) -> None:
    line = refusal(tmp_path, gguf(pairs(architecture, numbers)))
    assert message in line
    assert any(advice in line for advice in ("convert it again", "are read"))


def test_a_damaged_header_is_read_or_refused_but_never_worse(tmp_path: Path) -> None:
    chance = random.Random(4)
    whole = model(EXPERTS | {"attention.head_count_kv": [2, 2]})
    path = tmp_path / "model.gguf"
    refusals = []
    for _ in range(2000):
        content = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randrange(4)):
            if content:
                content[chance.randrange(min(len(content), 1200))] = chance.choice([0, 1, 9, 255])
        path.write_bytes(content)
        began = time.perf_counter()
        try:
            inspect(path)
        except ModelFileError as error:
            refusals.append(str(error))
        assert time.perf_counter() - began < 1
    assert all(line.isprintable() for line in refusals)
    assert 100 < len(refusals) < 1900
