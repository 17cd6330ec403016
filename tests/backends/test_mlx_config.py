"""Bad configurations and folders that are no models: each is refused by one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm")

from localspec_mlx.folder import config
from localspec_mlx.folder.footprint import inspect
from tests.backends.safetensors_files import GOOD, Entry, packed, put, refusal

# Configurations


def configured(folder: Path, **changes: object) -> Path:
    values = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, **changes}
    present = {name: value for name, value in values.items() if value is not None}
    return put(folder, config_json=present)


CONFIGS: dict[str, Entry] = {
    "has no model_type: choose": {"model_type": None},
    "has 7 as its model_type": {"model_type": 7},
    "has '' as its model_type": {"model_type": ""},
    "is of a UNet2DConditionModel, a part of a pipeline": {
        "model_type": None,
        "_class_name": "UNet2DConditionModel",
    },
    "wants code of its own to be run (model.py)": {"model_file": "model.py"},
    "is of a bert model, which does not continue text": {"model_type": "bert"},
    "is of a t5 model, which does not continue text": {
        "model_type": "t5",
        "is_encoder_decoder": True,
    },
    "is of a LlamaForSequenceClassification, which does not continue text": {
        "architectures": ["LlamaForSequenceClassification"]
    },
    "has hidden_size 0; it must be 1 to 2,147,483,647": {"hidden_size": 0},
    "has hidden_size -64; it must be": {"hidden_size": -64},
    "has hidden_size 2,147,483,648; it must be": {"hidden_size": 1 << 31},
    "has hidden_size 'big', which is no whole number": {"hidden_size": "big"},
    "has vocab_size True, which is no whole number": {"vocab_size": True},
    "has vocab_size 0.5, which is no whole number": {"vocab_size": 0.5},
    "has vocab_size inf, which is no whole number": {"vocab_size": float("inf")},
    "has vocab_size {'a': 1}, which is no whole number": {"vocab_size": {"a": 1}},
    "has max_position_embeddings 0": {"max_position_embeddings": 0},
    "has num_attention_heads 0": {"text_config": {"num_attention_heads": 0}},
    "has num_hidden_layers 1,000,000,000; at most 8,192": {"num_hidden_layers": 10**9},
    "has num_experts 10,000; at most 8,192": {"num_experts": 10_000},
    "has hc_sinkhorn_iters 1,000,000; at most": {"text_config": {"hc_sinkhorn_iters": 10**6}},
    "has emb_split_num 10,000; at most": {"listed": [[{"emb_split_num": 10_000}]]},
}


@pytest.mark.parametrize("message", CONFIGS)
def test_a_configuration_is_refused_by_what_is_wrong(message: str, tmp_path: Path) -> None:
    line = refusal(configured(tmp_path, **CONFIGS[message]), config.read)
    assert message in line
    assert line.startswith(f"{tmp_path.name}/config.json ")


TEXTS = {
    "is cut short, or no JSON": b"{",
    "no JSON (Expecting value": b"",
    "has a list as its content, not an object": b"[]",
    "is not UTF-8 at byte 0 of 1": b"\xff",
    "is a git-lfs pointer": b"version https://git-lfs.github.com/spec/v1\n",
    "maximum recursion depth": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("message", TEXTS)
def test_a_configuration_is_an_object(message: str, tmp_path: Path) -> None:
    assert message in refusal(put(tmp_path, config_json=TEXTS[message]), config.read)


def test_large_numbers_that_count_nothing_are_let_through(tmp_path: Path) -> None:
    usual = {"vocab_size": 262_144, "rope_theta": 100_000_000, "layer_group_size": 10_000}
    usual |= {"max_position_embeddings": 10_485_760, "num_image_token_id": 200_000}
    usual |= {"moe_layer_end_index": -1, "num_key_value_heads": None, "rope_theta_per_layer": 10**6}
    contents = config.read(configured(tmp_path, **usual))
    assert contents.number(config.CONTEXTS) == 10_485_760


def test_the_language_part_of_a_configuration_goes_first(tmp_path: Path) -> None:
    contents = config.read(
        configured(tmp_path, text_config={"hidden_size": 32, "n_ctx": [7, 9, 1 << 40]})
    )
    assert contents.number(config.WIDTHS) == 32
    assert contents.number(config.CONTEXTS) == 9
    assert contents.number(config.LAYERS) == 2
    assert contents.number(config.TOKENS, {"vocab_size": 5}) == 5
    assert contents.number(config.TOKENS) == 0


def test_what_lies_beside_a_configuration_is_checked_too(tmp_path: Path) -> None:
    configured(tmp_path)
    put(tmp_path, generation_config_json={})
    os.rename(tmp_path / "generation.config.json", tmp_path / "generation_config.json")
    config.read(tmp_path)
    (tmp_path / "generation_config.json").write_bytes(b"[]")
    assert "generation_config.json has a list" in refusal(tmp_path, config.read)
    (tmp_path / "generation_config.json").unlink()
    os.mkfifo(tmp_path / "generation_config.json")
    assert "generation_config.json is not a regular file" in refusal(tmp_path, config.read)


# Folders


def test_a_path_must_lead_to_a_folder(tmp_path: Path) -> None:
    assert "nothing does not exist: check the path" in refusal(tmp_path / "nothing", inspect)
    put(tmp_path, config_json={})
    path = tmp_path / "config.json"
    assert "is a file: give the folder that holds the model" in refusal(path, inspect)


NO_MODELS = {
    "adapter_config.json": "it is a LoRA adapter: give the folder of its model, and this one as",
    "model_index.json": "it is a pipeline that draws or speaks",
    "snapshots": "it is a download cache",
    "tiny.gguf": "it is a GGUF model: give the path of that file itself",
    "diffusion_pytorch_model.safetensors": "it is a pipeline that draws",
}


@pytest.mark.parametrize("name", NO_MODELS)
def test_a_folder_that_is_no_model_is_told_what_it_is(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    assert f"has no config.json; with {name}, {NO_MODELS[name]}" in refusal(tmp_path, inspect)


def test_the_folder_one_stands_in_has_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "README.md").touch()
    assert f"{tmp_path.name} has no config.json" in refusal(Path(), inspect)
    assert refusal(Path("sub"), inspect).startswith("sub has no config.json")


def test_layers_that_no_tensor_is_there_for_are_not_laid_out(tmp_path: Path) -> None:
    put(configured(tmp_path, num_hidden_layers=3), model_safetensors=packed(GOOD, 40))
    line = refusal(tmp_path, inspect)
    assert "promises 3 layers, but the folder holds 2 tensors" in line
