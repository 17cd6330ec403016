"""Footprints: what a good GGUF header says of a model, whole or in parts."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from localspec.backend import Footprint
from localspec.errors import ModelFileError
from localspec_llamacpp import inspect
from tests.backends.gguf_files import (
    TENSORS,
    VOCABULARY,
    Numbers,
    Plain,
    Tensor,
    Typed,
    described,
    encoded,
    gguf,
    looked_into,
    model,
    pairs,
    text,
)

# What a file holds


def test_a_small_model_is_described_by_its_header(tmp_path: Path) -> None:
    content = model()
    assert looked_into(tmp_path, content) == Footprint(
        path=tmp_path / "model.gguf",
        architecture="llama",
        name="Small",
        quantisation="Q8_0",
        file_bytes=len(content),
        weight_bytes=2048 + 256 + 4352,
        layers=2,
        heads=4,
        kv_heads=2,
        embedding=64,
        vocabulary=16,
        context=2048,
        kv_bytes_per_token=2 * 2 * 2 * 16 * 2,
        window=0,
        window_bytes_per_token=0,
        state_bytes=0,
        tokenizer="gpt2",
        chat_template="{{ messages }}",
    )


def test_a_vocabulary_without_weights_is_described_as_such(tmp_path: Path) -> None:
    found = looked_into(tmp_path, gguf({"general.architecture": "llama"} | VOCABULARY))
    assert (found.weight_bytes, found.layers, found.vocabulary) == (0, 0, 16)
    assert found.quantisation == "vocabulary only"
    assert found.name == "model"


def test_both_versions_of_the_format_are_read(tmp_path: Path) -> None:
    found = [looked_into(tmp_path, gguf(pairs(), TENSORS, version)) for version in (2, 3)]
    assert found[0] == found[1]


def test_the_recipe_that_a_file_names_goes_before_its_tensors(tmp_path: Path) -> None:
    for file_type, name in ((15, "Q4_K_M"), (2 + 1024, "Q4_0"), (99, "Q8_0")):
        content = model({"/general.file_type": file_type})
        assert looked_into(tmp_path, content).quantisation == name


def test_weights_may_be_aligned_to_more_than_usual(tmp_path: Path) -> None:
    metadata = pairs(changes={"/general.alignment": 128})
    records, size = described(TENSORS, 128)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(TENSORS), len(metadata))
    start += b"".join(text(key) + encoded(value) for key, value in metadata.items()) + records
    content = start + bytes(-len(start) % 128 + size)
    assert looked_into(tmp_path, content).weight_bytes == 2048 + 256 + 4352


def test_a_long_chat_template_is_kept(tmp_path: Path) -> None:
    template = "é" * (1 << 19)
    found = looked_into(tmp_path, model({"/tokenizer.chat_template": template}))
    assert found.chat_template == template


def test_a_name_stays_on_one_line(tmp_path: Path) -> None:
    assert looked_into(tmp_path, model({"/general.name": "a\n b"})).name == "a b"


def test_a_vocabulary_of_150_000_tokens_is_read_in_well_under_a_second(tmp_path: Path) -> None:
    tokens = [f"token{number}" for number in range(150_000)]
    merges = [f"to ken{number}" for number in range(150_000)]
    content = gguf(
        {"general.architecture": "llama"}
        | VOCABULARY
        | {
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": Typed("i32", [1] * 150_000),
            "tokenizer.ggml.merges": merges,
        }
    )
    (tmp_path / "model.gguf").write_bytes(content)
    started = time.perf_counter()
    assert inspect(tmp_path / "model.gguf").vocabulary == 150_000
    assert time.perf_counter() - started < 1


# What a model needs: numbers of published models, bytes by hand


@dataclass(frozen=True)
class Known:
    architecture: str
    numbers: Numbers
    kv: int
    window: tuple[int, int] = (0, 0)  # tokens, bytes a token
    state: int = 0


def shape(layers: int, width: int, heads: int, kv_heads: Plain, size: int) -> dict[str, Plain]:
    return {
        "block_count": layers,
        "embedding_length": width,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": size,
        "attention.value_length": size,
    }


def scan(inner: int, state: int, rank: int, groups: int) -> dict[str, Plain]:
    return {
        "ssm.conv_kernel": 4,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": rank,
        "ssm.group_count": groups,
    }


def latent(layers: int, rotated: int) -> dict[str, Plain]:
    return shape(layers, 7168, 128, 1, 512 + rotated) | {
        "attention.value_length": 512,
        "attention.kv_lora_rank": 512,
        "attention.key_length_mla": 128 + rotated,
        "attention.value_length_mla": 128,
        "rope.dimension_count": rotated,
        "expert_count": 256,
        "expert_used_count": 8,
        "expert_group_count": 8,
        "expert_group_used_count": 4,
    }


LFM2_HEADS = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]
SLIDING = "attention.sliding_window"
KNOWN = {
    "llama 3.1 8b": Known("llama", shape(32, 4096, 32, 8, 128), 32 * 4096),
    "gemma 2 9b": Known(
        "gemma2", shape(42, 3584, 16, 8, 256) | {SLIDING: 4096}, 21 * 8192, (4096, 21 * 8192)
    ),
    "gemma 3 27b": Known(
        "gemma3", shape(62, 5376, 32, 16, 128) | {SLIDING: 1024}, 10 * 8192, (1024, 52 * 8192)
    ),
    "gemma 3 without windows": Known("gemma3", shape(62, 5376, 32, 16, 128), 62 * 8192),
    "gemma 3n e2b": Known(
        "gemma3n", shape(30, 2048, 8, 2, 256) | {SLIDING: 512}, 4 * 2048, (512, 16 * 2048)
    ),
    "gemma 4, its last layers reusing": Known(
        "gemma4",
        shape(8, 1024, 4, 2, 512)
        | {
            SLIDING: 512,
            "attention.key_length_swa": 256,
            "attention.value_length_swa": 256,
            "rope.dimension_count_swa": 256,
            "attention.shared_kv_layers": 4,
            f"{SLIDING}_pattern": [True, True, True, False] * 2,
        },
        2 * 2 * 1024,
        (512, 3 * 2 * 2 * 512),
    ),
    "gpt-oss 20b": Known(
        "gpt-oss",
        shape(24, 2880, 64, 8, 64) | {SLIDING: 128, "expert_count": 32, "expert_used_count": 4},
        12 * 2048,
        (128, 12 * 2048),
    ),
    "llama 4 scout": Known("llama4", shape(48, 5120, 40, 8, 128), 12 * 4096, (8192, 36 * 4096)),
    "exaone 4 1.2b, which does not slide": Known("exaone4", shape(30, 2048, 32, 8, 64), 30 * 2048),
    "smallthinker 4b, whose window is not for the file to say": Known(
        "smallthinker",
        shape(9, 1536, 12, 2, 128)
        | {SLIDING: 512, "expert_count": 32, "expert_used_count": 4, "expert_gating_func": 2},
        3 * 1024,
        (4096, 6 * 1024),
    ),
    "granite with a layer that chooses adapters": Known(
        "graniteswitch", shape(40, 2560, 40, 8, 64), 40 * 2048 + 2 * 2 * 64
    ),
    "glm 5 next, which keeps three things to choose by": Known(
        "glm5-next",
        latent(2, 0)
        | {"attention.head_count_kv": [0, 1], "ssm.conv_kernel": 4, "kda.head_dim": 64}
        | {"attention.indexer.key_length": 128, "attention.indexer.top_k": 64}
        | {"attention.indexer.kpool": 4, "hyper_connection.count": 4}
        | {"hyper_connection.sinkhorn_iterations": 20},
        (512 + 3 * 128) * 2,
        state=128 * 64 * (3 * 3 + 64) * 4,
    ),
    "deepseek 3": Known("deepseek2", latent(61, 64), 61 * 576 * 2),
    "deepseek 2 lite, converted before latents": Known(
        "deepseek2",
        shape(27, 2048, 16, 16, 192) | {"attention.value_length": 128, "rope.dimension_count": 64},
        27 * 16 * (192 + 128) * 2,
    ),
    "deepseek 3.2 and its indexer": Known(
        "deepseek32", latent(61, 64) | {"attention.indexer.key_length": 128}, 61 * (576 + 128) * 2
    ),
    "glm 4.5 air, whose last layer only drafts": Known(
        "glm4moe",
        shape(47, 4096, 96, 8, 128)
        | {"nextn_predict_layers": 1, "expert_count": 128, "expert_used_count": 8}
        | {"rope.dimension_count": 64},
        46 * 4096,
    ),
    "qwen 3 next 80b": Known(
        "qwen3next",
        shape(48, 2048, 16, 2, 256) | scan(4096, 128, 32, 16) | {"rope.dimension_count": 64},
        12 * 2048,
        state=36 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096) * 4,
    ),
    "mamba 2 2.7b": Known(
        "mamba2",
        shape(64, 2560, 0, 0, 0) | scan(5120, 128, 80, 1),
        0,
        state=64 * (3 * (5120 + 2 * 128) + 128 * 5120) * 4,
    ),
    "falcon h1 0.5b, which does both in each layer": Known(
        "falcon-h1",
        shape(36, 1024, 8, 2, 64) | scan(1536, 128, 24, 1),
        36 * 2 * 2 * 128,
        state=36 * (3 * (1536 + 2 * 128) + 128 * 1536) * 4,
    ),
    "lfm2 1.2b": Known(
        "lfm2",
        shape(16, 2048, 32, LFM2_HEADS, 64) | {"shortconv.l_cache": 3},
        6 * 2048,
        state=10 * 2 * 2048 * 4,
    ),
    "nemotron h, with layers that only feed forward": Known(
        "nemotron_h",
        shape(4, 4096, 32, [0, 0, 8, 0], 128)
        | scan(8192, 128, 128, 8)
        | {"feed_forward_length": [0, 21504, 0, 0]},
        4096,
        state=2 * (3 * (8192 + 2 * 8 * 128) + 128 * 8192) * 4,
    ),
    "kimi linear": Known(
        "kimi-linear",
        latent(4, 64)
        | {"attention.head_count": 32, "attention.head_count_kv": [0, 0, 0, 1]}
        | {"ssm.conv_kernel": 4, "kda.head_dim": 128, "expert_gating_func": 2},
        576 * 2,
        state=3 * 32 * 128 * (3 * 3 + 128) * 4,
    ),
    "rwkv 7 1.5b": Known(
        "rwkv7",
        shape(24, 2048, 0, 0, 0) | {"wkv.head_size": 64},
        0,
        state=24 * (2 * 2048 + 64 * 2048) * 4,
    ),
}


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN.keys())
def test_the_memory_of_a_model_is_what_llama_cpp_allocates(known: Known, tmp_path: Path) -> None:
    found = looked_into(tmp_path, gguf(pairs(known.architecture, known.numbers)))
    assert found.kv_bytes_per_token == known.kv
    assert (found.window, found.window_bytes_per_token) == known.window
    assert found.state_bytes == known.state
    assert found.recurrent == (known.state > 0)


def test_an_architecture_nobody_has_heard_of_is_taken_for_a_plain_one(tmp_path: Path) -> None:
    found = looked_into(tmp_path, gguf(pairs("hyper9")))
    assert (found.architecture, found.kv_bytes_per_token) == ("hyper9", 256)


# Files in parts


def parts(shares: Sequence[Sequence[Tensor]], promised: int = 3) -> list[bytes]:
    """One file for each share of the tensors; the metadata is in the first."""
    contents = []
    for part, share in enumerate(shares):
        split: dict[str, Plain] = {
            "split.no": Typed("u16", part),
            "split.count": Typed("u16", len(shares)),
            "split.tensors.count": Typed("i32", promised),
        }
        contents.append(gguf((pairs() if part == 0 else {}) | split, share))
    return contents


def thirds() -> list[bytes]:
    return parts([[tensor] for tensor in TENSORS])


def written(tmp_path: Path, contents: list[bytes]) -> list[Path]:
    names = [f"model-{part:05}-of-{len(contents):05}.gguf" for part in range(1, len(contents) + 1)]
    paths = [tmp_path / name for name in names]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    return paths


def test_a_model_in_parts_is_counted_whole(tmp_path: Path) -> None:
    contents = thirds()
    found = inspect(written(tmp_path, contents)[0])
    assert found.file_bytes == sum(map(len, contents))
    assert found.weight_bytes == 2048 + 256 + 4352


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = written(tmp_path, thirds())
    paths[1].unlink()
    missing = r"is part 1 of 3; part 2 is missing: model-00002-of-00003\.gguf"
    with pytest.raises(ModelFileError, match=missing):
        inspect(paths[0])


def test_another_part_than_the_first_asks_for_the_first(tmp_path: Path) -> None:
    paths = written(tmp_path, thirds())
    with pytest.raises(ModelFileError, match=r"is part 2 of 3: give part 1, model-00001-of-00003"):
        inspect(paths[1])


def test_a_renamed_part_says_what_to_rename_it_to(tmp_path: Path) -> None:
    path = written(tmp_path, thirds())[0].rename(tmp_path / "renamed.gguf")
    with pytest.raises(ModelFileError, match=r"rename it to end in -00001-of-00003\.gguf"):
        inspect(path)


SPLITS = {
    "says it is part 3, but lies where part 2 should": [thirds()[part] for part in (0, 2, 1)],
    "model-00003-of-00003.gguf is cut short": [*thirds()[:2], thirds()[2][:-1]],
    "has the tensor output_norm.weight, and so has another part": parts(
        [TENSORS[:2], TENSORS[1:2], TENSORS[2:]]
    ),
    "promises 4 tensors in 3 parts, which hold 3": parts([[each] for each in TENSORS], promised=4),
}


@pytest.mark.parametrize("message", SPLITS)
def test_parts_that_do_not_belong_together_are_refused(message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        inspect(written(tmp_path, SPLITS[message])[0])
    assert message in str(caught.value)
