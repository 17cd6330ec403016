"""Footprints: what the headers of MLX folders say of a model, and what mlx-lm would not load."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

pytest.importorskip("mlx_lm")

import mlx.core as mx
import mlx.nn as nn

from localspec.base.errors import ModelFileError
from localspec.interfaces.backend import Footprint
from localspec_mlx.folder import config
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.skeleton import lay_out
from tests import tiny_mlx
from tests.backends.mlx_folders import (
    COMPRESSING,
    OTHERS,
    hollow,
    reconfigured,
    refusal,
    rewritten,
    written,
)

# What a folder holds


def test_a_small_model_is_described_by_its_headers(tmp_path: Path) -> None:
    folder = written(tmp_path / "small", "llama")
    heavy = 2 * 384 * 64 + 3 * (64 * 64 + 2 * 32 * 64 + 64 * 64 + 3 * 64 * 96)
    assert inspect(folder) == Footprint(
        path=folder,
        architecture="llama",
        name="small",
        quantisation="float32",
        file_bytes=(folder / "model.safetensors").stat().st_size,
        weight_bytes=4 * (heavy + 7 * 64),
        layers=3,
        heads=2,
        kv_heads=1,
        embedding=64,
        vocabulary=384,
        context=4096,
        attention_layers=3,
        head_width=32,
        kv_bytes_per_token=3 * 2 * 32 * 2,
        tokenizer="bpe",
        chat_template=tiny_mlx.CHAT_TEMPLATE,
    )


def test_a_folder_may_be_given_relative_to_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written(tmp_path / "small", "llama"))
    assert (inspect(Path()).name, inspect(Path()).path) == ("small", Path())


def test_a_folder_of_a_download_cache_is_named_by_its_model(tmp_path: Path) -> None:
    folder = written(tmp_path / "models--org--Tiny-4bit" / "snapshots" / ("0a" * 20), "llama")
    assert inspect(folder).name == "Tiny-4bit"
    alone = reconfigured(Path(shutil.move(folder, tmp_path)), _name_or_path="org/Tiny-8bit/")
    assert inspect(alone).name == "Tiny-8bit"
    assert inspect(reconfigured(alone, _name_or_path=None)).name == "0a" * 20


def test_a_name_stays_on_one_line(tmp_path: Path) -> None:
    assert inspect(written(tmp_path / "a\n b", "llama")).name == "a b"


def test_what_a_configuration_leaves_out_is_what_the_definition_takes(tmp_path: Path) -> None:
    names = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads")
    names += ("head_dim", "num_key_value_heads", "sliding_window", "sliding_window_pattern")
    shared = {**tiny_mlx._SHARED, **tiny_mlx.ARCHITECTURES["gemma3_text"]}
    inner = {"model_type": "gemma3_text"} | {name: shared[name] for name in names}
    folder = written(tmp_path / "sees", "gemma3", text_config=inner)
    footprint = inspect(reconfigured(folder, **dict.fromkeys(tiny_mlx._SHARED)))
    assert footprint.architecture == "gemma3"
    assert (footprint.layers, footprint.heads, footprint.embedding) == (3, 2, 64)
    assert (footprint.context, footprint.window) == (32_768, 16)


def test_state_and_windows_set_no_limit_where_none_is_named(tmp_path: Path) -> None:
    for architecture, context in (("mamba2", 1 << 20), ("recurrent_gemma", 1 << 20)):
        folder = written(tmp_path / architecture, architecture, max_position_embeddings=None)
        assert inspect(reconfigured(folder, max_position_embeddings=None)).context == context


def test_a_model_without_attention_has_no_heads(tmp_path: Path) -> None:
    footprint = inspect(written(tmp_path / "tiny", "mamba2"))
    assert (footprint.heads, footprint.kv_heads, footprint.layers) == (0, 0, 3)


def test_a_model_that_names_no_context_gets_a_short_one(tmp_path: Path) -> None:
    folder = written(tmp_path / "tiny", "dbrx")
    assert inspect(reconfigured(folder, max_position_embeddings=None)).context == 2048
    assert inspect(reconfigured(folder, max_seq_len=32_768)).context == 32_768


def test_the_context_of_a_scaled_rotation_is_the_one_that_is_named(tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
    assert inspect(written(tmp_path / "tiny", "qwen3", rope_scaling=scaling)).context == 4096


# How weights are stored


def quantised(bits: int, group: int, mode: str = "affine") -> Callable[[nn.Module], None]:
    return lambda model: nn.quantize(model, group, bits, mode=mode)


STORED: dict[str, tuple[Callable[[nn.Module], None], dict[str, object]]] = {
    "bfloat16": (lambda model: model.set_dtype(mx.bfloat16), {}),
    "float16": (lambda model: model.set_dtype(mx.float16), {}),
    "4-bit, groups of 32": (quantised(4, 32), {"bits": 4, "group_size": 32}),
    "8-bit, groups of 64": (quantised(8, 64), {"bits": 8, "group_size": 64}),
    "mxfp4": (quantised(4, 32, "mxfp4"), {"bits": 4, "group_size": 32, "mode": "mxfp4"}),
    "nvfp4": (quantised(4, 16, "nvfp4"), {"bits": 4, "group_size": 16, "mode": "nvfp4"}),
}


@pytest.mark.parametrize("name", STORED)
def test_weights_are_named_by_what_most_of_them_are(name: str, tmp_path: Path) -> None:
    change, quantization = STORED[name]
    folder = written(tmp_path / "tiny", "llama", intermediate_size=128)
    wide = inspect(folder)
    rewritten(folder, change, **({"quantization": quantization} if quantization else {}))
    footprint = inspect(folder)
    assert footprint.quantisation == name
    assert footprint.weight_bytes < 0.6 * wide.weight_bytes
    assert footprint.kv_bytes_per_token == wide.kv_bytes_per_token


def test_weights_that_are_not_quantised_go_unnamed_if_most_are(tmp_path: Path) -> None:
    def change(model: nn.Module) -> None:
        model.set_dtype(mx.bfloat16)
        nn.quantize(model.model.layers[0].mlp, group_size=32, bits=4)

    folder = written(tmp_path / "tiny", "llama", intermediate_size=2048, num_hidden_layers=1)
    footprint = inspect(rewritten(folder, change, quantization={"group_size": 32, "bits": 4}))
    assert footprint.quantisation == "4-bit, groups of 32"


def test_a_width_that_few_weights_have_goes_unnamed(tmp_path: Path) -> None:
    def change(model: nn.Module) -> None:
        nn.quantize(model.model.layers[0].self_attn, group_size=32, bits=8)
        nn.quantize(model, group_size=32, bits=4)

    folder = written(tmp_path / "tiny", "llama", intermediate_size=2048, num_hidden_layers=1)
    parts = [f"model.layers.0.self_attn.{part}_proj" for part in "qkvo"]
    choice = {part: {"group_size": 32, "bits": 8} for part in parts}
    rewritten(folder, change, quantization={"group_size": 32, "bits": 4, **choice})
    assert inspect(folder).quantisation == "4-bit, groups of 32"


def test_several_widths_are_all_named(tmp_path: Path) -> None:
    def change(model: nn.Module) -> None:
        def chosen(path: str, module: nn.Module) -> object:
            wide = "embed" in path or "lm_head" in path
            return hasattr(module, "to_quantized") and {"group_size": 32, "bits": 8 if wide else 4}

        nn.quantize(model, class_predicate=chosen)

    wide = {"group_size": 32, "bits": 8}
    choice = {"group_size": 32, "bits": 4, "lm_head": wide, "model.embed_tokens": wide}
    folder = rewritten(written(tmp_path / "tiny", "llama"), change, quantization=choice)
    assert inspect(folder).quantisation == "mixed 4-bit and 8-bit, groups of 32"


# Models of real size, without a byte of weights


QWEN3_32B = {
    "model_type": "qwen3",
    "hidden_size": 5120,
    "num_hidden_layers": 64,
    "intermediate_size": 25600,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "vocab_size": 151_936,
    "max_position_embeddings": 40_960,
    "rope_theta": 1e6,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize("quantization", [None, {"group_size": 64, "bits": 4}])
def test_a_large_model_costs_neither_time_nor_memory(
    quantization: dict[str, int] | None, tmp_path: Path
) -> None:
    extra = {"quantization": quantization} if quantization else {}
    folder = hollow(tmp_path / "large", QWEN3_32B | extra)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    began = time.perf_counter()
    footprint = inspect(folder)
    assert time.perf_counter() - began < 5
    assert mx.get_peak_memory() - before < 1 << 20
    assert footprint.quantisation == ("4-bit, groups of 64" if quantization else "bfloat16")
    assert footprint.weight_bytes == (18_429_667_328 if quantization else 65_524_246_528)
    assert (footprint.layers, footprint.heads, footprint.kv_heads, footprint.embedding) == (
        64,
        64,
        8,
        5120,
    )
    assert (footprint.vocabulary, footprint.context) == (151_936, 40_960)
    assert footprint.kv_bytes_per_token == 64 * 2 * 8 * 128 * 2


def test_a_model_that_looks_at_its_numbers_reads_none(tmp_path: Path) -> None:
    values = {**tiny_mlx._SHARED, **OTHERS["dbrx"], "model_type": "dbrx", "vocab_size": 100_000}
    folder = hollow(tmp_path / "large", values | {"d_model": 2048, "n_heads": 16})
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    assert inspect(folder).kv_bytes_per_token == 3 * 2 * 128 * 2
    assert mx.get_peak_memory() - before < 1 << 20


def test_a_look_leaves_a_profiler_as_it_was(tmp_path: Path) -> None:
    folder = written(tmp_path / "tiny", "llama")
    seen: list[str] = []

    def mine(frame: FrameType, event: str, argument: object) -> None:
        seen.append(event)

    sys.setprofile(mine)
    try:
        inspect(folder)
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
    assert seen


def test_a_look_leaves_no_work_behind(tmp_path: Path) -> None:
    inspect(written(tmp_path / "tiny", "llama"))
    mx.export_to_dot(str(tmp_path / "graph"), mx.random.state[0])
    assert "Split" not in (tmp_path / "graph").read_text()


# What mlx-lm would not load


TYPES = {
    "qwen-3": "is of a 'qwen-3' model, which mlx-lm",
    "lama": "(it knows llama",
    "cache": "does not know",
    "..utils": "is of a '..utils' model",
    "llama.Model": "does not know (it knows llama",
    "gated_deltas": "does not know: a newer one may, pip install -U mlx-lm",
}


@pytest.mark.parametrize("name", TYPES)
def test_an_unknown_model_is_named_with_those_that_are_like_it(name: str, tmp_path: Path) -> None:
    line = refusal(reconfigured(written(tmp_path / "tiny", "llama"), model_type=name))
    assert line.startswith("tiny/config.json ")
    assert TYPES[name] in line


def test_another_name_of_a_known_model_is_known(tmp_path: Path) -> None:
    folder = reconfigured(written(tmp_path / "tiny", "llama"), model_type="mistral")
    assert inspect(folder).architecture == "mistral"


CHANGES: dict[str, dict[str, object]] = {
    "ModelArgs.__init__() missing 1 required positional argument: 'rms_norm_eps'": {
        "rms_norm_eps": None
    },
    "Expected shape (384, 32) but received shape (384, 64)": {"hidden_size": 32},
    "Missing 18 parameters: model.layers.3": {"num_hidden_layers": 5},
    "Received 9 parameters not in model: model.layers.2": {"num_hidden_layers": 2},
    "(TypeError": {"num_hidden_layers": [3]},
    "(KeyError: 'group_size')": {"quantization": {"bits": 4}},
    "a layer looks back on 0 tokens": {
        "sliding_window": 0,
        "layer_types": ["full_attention", *["sliding_attention"] * 2],
    },
}


@pytest.mark.parametrize("message", CHANGES)
def test_a_definition_says_what_does_not_fit_it(message: str, tmp_path: Path) -> None:
    line = refusal(reconfigured(written(tmp_path / "tiny", "llama"), **CHANGES[message]))
    assert "/tiny is not a llama model as mlx-lm " in line
    assert message in line
    assert line.endswith("choose another conversion")


def test_a_model_that_cannot_run_is_refused(tmp_path: Path) -> None:
    heads = {"head_dim": 1, "num_attention_heads": 64, "num_key_value_heads": 32}
    assert "dims must be even" in refusal(written(tmp_path / "tiny", "llama", **heads))


def test_weights_of_another_kind_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "tiny", "llama")
    mx.save_safetensors(
        str(folder / "model.safetensors"), {f"vision.{n}": mx.zeros(4) for n in range(9)}
    )
    assert "Received 9 parameters not in model: vision.0" in refusal(folder)


def test_a_path_that_mlx_lm_would_take_for_a_pattern_is_refused(tmp_path: Path) -> None:
    assert "has one of *?[ in its path" in refusal(written(tmp_path / "tiny[4bit]", "llama"))


def test_a_model_that_takes_too_long_to_lay_out_is_given_up(tmp_path: Path) -> None:
    settings = {**COMPRESSING, "hc_sinkhorn_iters": 8000}
    folder = written(tmp_path / "tiny", "deepseek_v41", **settings)
    began = time.perf_counter()
    with pytest.raises(ModelFileError, match=r"take more than 0\.3 seconds to lay out"):
        lay_out(config.read(folder), seconds=0.3)
    assert time.perf_counter() - began < 3
    assert sys.getprofile() is None


HOSTILE = [0, -1, 3, 1 << 20, 1 << 40, 1e30, 0.5, "x", None, [], {}, True, [1, 2]]


def fits(folder: Path) -> bool:
    try:
        inspect(folder)
    except ModelFileError:
        return False
    return True


@pytest.mark.parametrize("architecture", ["gpt_oss", "falcon_h1"])
def test_any_number_of_a_configuration_may_be_wrong(architecture: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "tiny", architecture)
    values = json.loads((folder / "config.json").read_text())
    refused = 0
    for name in values:
        for value in HOSTILE:
            (folder / "config.json").write_text(json.dumps({**values, name: value}))
            refused += not fits(folder)
    assert refused > 3 * len(values)


def test_what_a_folder_advises_about_sampling_is_told(tmp_path: Path) -> None:
    folder = written(tmp_path / "small", "llama")
    advice = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": "0.9", "min_p": None}
    text = json.dumps(advice | {"repetition_penalty": 1.1, "eos_token_id": 2})
    (folder / "generation_config.json").write_text(text)
    assert inspect(folder).sampling == {"temperature": 0.6, "top_k": 20, "repetition": 1.1}
