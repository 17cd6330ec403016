"""Footprints: what a good GGUF header says of a model, whole or in parts."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from localspec.base.errors import ModelFileError
from localspec.interfaces.backend import Footprint, Options
from localspec_llamacpp.backend import inspect, rehearse
from localspec_llamacpp.bindings import products
from tests import engines
from tests.backends.gguf_files import (
    TENSORS,
    VOCABULARY,
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

BLOCK: Tensor = ("blk.3.nextn.eh_proj.weight", (64, 64), 8, 4352)
TRUNK: Tensor = ("blk.0.attn_norm.weight", (64,), 0, 256)


@pytest.mark.parametrize(("more", "layers"), [([TRUNK], 0), ([TRUNK, BLOCK], 2)])
def test_drafting_blocks_count_where_they_are_in_the_file(
    tmp_path: Path, more: list[Tensor], layers: int
) -> None:
    content = model({"nextn_predict_layers": 2}, [*TENSORS, *more])
    lookups = looked_into(tmp_path, content)
    assert lookups.drafting_layers == layers
    assert lookups.read_bytes == 2048 + 4352  # of the trunk alone


def test_each_token_reads_the_matrices_and_of_experts_the_active_ones(tmp_path: Path) -> None:
    experts: Tensor = ("blk.0.ffn_up_exps.weight", (64, 64, 4), 8, 4 * 4352)
    output: Tensor = ("output.weight", (64, 16), 1, 2048)
    content = model({"expert_count": 4, "expert_used_count": 1}, [*TENSORS, experts, output])
    assert looked_into(tmp_path, content).read_bytes == 4352 + 4352 + 2048  # and no embeddings


def test_drafting_blocks_alone_are_a_head(tmp_path: Path) -> None:
    content = model({"nextn_predict_layers": 2}, [*TENSORS, BLOCK])
    assert looked_into(tmp_path, content).drafter == "mtp"


def test_a_small_model_is_described_by_its_header(tmp_path: Path) -> None:
    content = model()
    assert looked_into(tmp_path, content) == Footprint(
        path=tmp_path / "model.gguf",
        architecture="llama",
        name="Small",
        quantisation="Q8_0",
        file_bytes=len(content),
        weight_bytes=2048 + 256 + 4352,
        parameters=64 * 16 + 64 + 64 * 64,
        read_bytes=2048 + 4352,
        layers=2,
        heads=4,
        kv_heads=2,
        embedding=64,
        vocabulary=16,
        context=2048,
        tokenizer="gpt2",
        chat_template="{{ messages }}",
        uneven="1 tensor in F16",
        even=bool(products.name()),
    )


def test_a_vocabulary_without_weights_is_described_as_such(tmp_path: Path) -> None:
    lookups = looked_into(tmp_path, gguf({"general.architecture": "llama"} | VOCABULARY))
    assert (lookups.weight_bytes, lookups.layers, lookups.vocabulary) == (0, 0, 16)
    assert lookups.quantisation == "vocabulary only"
    assert lookups.name == "model"


def test_both_versions_of_the_format_are_read(tmp_path: Path) -> None:
    lookups = [looked_into(tmp_path, gguf(pairs(), TENSORS, version)) for version in (2, 3)]
    assert lookups[0] == lookups[1]


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
    lookups = looked_into(tmp_path, model({"/tokenizer.chat_template": template}))
    assert lookups.chat_template == template


def test_numbers_are_read_whatever_kind_of_number_they_are(tmp_path: Path) -> None:
    changes = {
        "block_count": Typed("u64", 2),
        "attention.head_count_kv": Typed("i32", [0, 2]),
        "context_length": Typed("u16", 512),
        "expert_count": Typed("i32", 8),
        "expert_used_count": "two",
    }
    lookups = looked_into(tmp_path, model(changes))
    assert (lookups.layers, lookups.kv_heads, lookups.context) == (2, 2, 512)
    assert (lookups.experts, lookups.active_experts) == (8, 0)


def test_positions_that_are_stretched_count_as_context(tmp_path: Path) -> None:
    scaling = {"rope.scaling.original_context_length": 2048, "rope.scaling.factor": 4.0}
    assert looked_into(tmp_path, model(scaling)).context == 8192
    for broken in (float("nan"), float("inf"), -1.0, 0.0, 3e38):
        content = model(scaling | {"rope.scaling.factor": broken})
        assert looked_into(tmp_path, content).context == 2048


def test_what_only_the_engine_can_judge_is_left_to_it(tmp_path: Path) -> None:
    tensors = [*TENSORS, ("future.weight", (64, 3), 99, 0)]
    lookups = looked_into(tmp_path, gguf(pairs("hyper9", {"gates": [1, 2]}), tensors))
    assert (lookups.architecture, lookups.layers, lookups.kv_bytes_per_token) == ("hyper9", 2, 0)


# What the engine lays out


def test_a_mask_counts_where_a_name_tells_that_it_was_trained_for(tmp_path: Path) -> None:
    path = engines.tiny("llama")
    command = [sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--special-token-by-id"]
    for mask, name, expected in (("7", "PARD-x", 7), ("7", "x", None), ("900", "PARD-y", None)):
        made = tmp_path / f"{name}.gguf"
        done = subprocess.run([*command, "mask", mask, path, made], capture_output=True)
        assert (inspect(made).mask_token if done.returncode == 0 else None) == expected
    assert inspect((tmp_path / "x.gguf").rename(tmp_path / "pard.gguf")).mask_token == 7
    assert inspect(path).mask_token is None


def test_what_a_model_keeps_is_what_the_engine_lays_out() -> None:
    def kept(name):
        with rehearse(engines.tiny(name)) as rehearsal:
            footprint = rehearsal.footprint
        layers = (footprint.layers, footprint.attention_layers, footprint.window_layers)
        numbers = (footprint.kv_bytes_per_token, footprint.window, footprint.window_bytes_per_token)
        return (*layers, footprint.recurrent_layers), (*numbers, footprint.state_bytes)

    token = 2 * 2 * 32  # keys and values of one layer of one head
    assert kept("llama") == ((3, 3, 0, 0), (3 * token, 0, 0, 0))
    assert kept("gemma3") == ((3, 1, 2, 0), (token, 16, 2 * token, 0))
    assert kept("qwen35")[0] == (3, 1, 0, 2)
    assert kept("mamba2")[0] == (3, 0, 0, 3)
    assert kept("lfm2")[0] == (3, 1, 0, 2)
    state = 3 * (3 * (128 + 2 * 128) + 128 * 128) * 4
    assert kept("mamba2")[1][3] == pytest.approx(state, rel=0.001)


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
    started = time.thread_time()
    assert inspect(tmp_path / "model.gguf").vocabulary == 150_000
    assert time.thread_time() - started < 1


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
    footprint = inspect(written(tmp_path, contents)[0])
    assert footprint.file_bytes == sum(map(len, contents))
    assert footprint.weight_bytes == 2048 + 256 + 4352


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
}


@pytest.mark.parametrize("message", SPLITS)
def test_parts_that_do_not_belong_together_are_refused(message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        inspect(written(tmp_path, SPLITS[message])[0])
    assert message in str(caught.value)


@pytest.mark.parametrize(("name", "copies"), [("llama", 0), ("qwen35", 1), ("mamba2", 0)])
def test_the_logits_and_the_states_of_a_long_draft_are_planned_for(name, copies):
    """A hybrid with snapshots for 8 tokens copies its states before a longer draft."""
    with rehearse(engines.tiny(name)) as rehearsal:
        short, long = (
            rehearsal.needs(Options(context=600, tentative=tentative)).working
            for tentative in (8, 16)
        )
        footprint = rehearsal.footprint
    assert long - short == 8 * footprint.vocabulary * 4 + copies * footprint.state_bytes


def test_what_a_converter_found_about_sampling_is_told(tmp_path: Path) -> None:
    changes = {
        "/general.basename": "Small-Talk",
        "/general.sampling.temp": Typed("f32", 0.7),
        "/general.sampling.top_k": Typed("i32", 20),
        "/general.sampling.penalty_repeat": Typed("f32", 1.05),
        "/general.sampling.top_p": "0.8",  # which is no number
        "/general.sampling.sequence": "top_k;temperature",
    }
    lookups = looked_into(tmp_path, model(changes))
    assert lookups.basename == "Small-Talk"
    assert lookups.sampling == {"temperature": 0.7, "top_k": 20, "repetition": 1.05}
    assert lookups.samplers == "top_k;temperature"
