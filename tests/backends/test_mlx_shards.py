"""Bad safetensors files: each is refused by one line, before MLX could believe what it says."""

from __future__ import annotations

import json
import os
import random
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

pytest.importorskip("mlx_lm")

from localspec.base.errors import ModelFileError
from localspec_mlx.folder import shards
from tests.backends.safetensors_files import GOOD, packed, put, refusal, tensor

MANY = 1 << 62
FORMATS = {
    "is empty or unfinished: 0 zero bytes": b"",
    "is empty or unfinished: 64 zero bytes are the first of 1,000": bytes(1000),
    "is a git-lfs pointer, not the weights": b"version https://git-lfs.github.com/spec/v1\noid x",
    "is GGUF, not safetensors": b"GGUF" + struct.pack("<IQQ", 3, ord("{"), 0),
    "is a zip archive": b"PK\3\4" + bytes(40),
    "is a web page": b"\n<!DOCTYPE html><html><head><title>Sign in",
    "is not safetensors: it starts with b'\\x89PNG": b"\x89PNG" + bytes(40),
    "is not safetensors: it starts with b'\\x02": struct.pack("<Q", 2) + b"[]",
}
REFUSED = {
    "its header has 16,777,217 bytes; at most 16,777,216 are read": packed(
        {}, data=17 << 20, length=(16 << 20) + 1
    ),
    "has tensor a of type F64, which MLX does not read": packed({"a": tensor(0, 8, [1], "F64")}, 8),
    "has tensor a of type F8_E5M2": packed({"a": tensor(0, 1, [1], "F8_E5M2")}, 1),
    "tensor a has the shape [0, 2147483648]": packed({"a": tensor(0, 0, [0, 1 << 31])}),
    "tensor a has the shape [1, 1, 1": packed({"a": tensor(0, 4, [1] * 17)}, 4),
}
BROKEN = {
    "a header longer than any file": packed({}, length=MANY),
    "a header longer than the file": packed({}, length=3),
    "a header cut short": packed(b'{"a":'),
    "deep lists": packed(b'{"a":' + b"[" * 100_000),
    "a long number": packed(b'{"a":' + b"1" * 5000 + b"}"),
    "many values": packed(b'{"a":[' + b"0," * 4_200_000 + b"0]}"),
    "no UTF-8": packed(b'{"\xff"'),
    "a number as metadata": packed({"__metadata__": {"format": 1}}),
    "a list as metadata": packed({"__metadata__": ["mlx"]}),
    "a number as a tensor": packed({"a": 1}),
    "no type": packed({"a": {"shape": [1], "data_offsets": [0, 4]}}, 4),
    "no shape": packed({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, 4),
    "no offsets": packed({"a": {"dtype": "F32", "shape": [1]}}, 4),
    "negative axes": packed({"a": tensor(0, 16, [-1, -4])}, 16),
    "an axis that is true": packed(b'{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}', 4),
    "a negative offset": packed({"a": tensor(-4, 0, [1])}, 4),
    "an offset with a fraction": packed(
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4.0]}}, 4
    ),
    "three offsets": packed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}, 8),
    "too many bytes for a shape": packed({"a": tensor(0, 8, [1])}, 8),
    "an end before the start": packed({"a": tensor(4, 0, [1])}, 4),
    "a shape of more than 64 bits": packed({"a": tensor(0, 4, [1 << 16] * 3)}, 4),
    "a gap": packed({**GOOD, "b": tensor(12, 44, [8])}, 44),
    "an overlap": packed({**GOOD, "b": tensor(4, 36, [8])}, 40),
    "a gap at the start": packed({"a": tensor(8, 16, [2])}, 16),
    "a byte missing": packed(GOOD, 39),
    "a byte too many": packed(GOOD, 41),
}
REFUSALS = FORMATS | REFUSED


@pytest.mark.parametrize("message", REFUSALS)
def test_a_file_that_mlx_cannot_take_is_refused_by_what_is_wrong(
    message: str, tmp_path: Path
) -> None:
    line = refusal(put(tmp_path, model_safetensors=REFUSALS[message]))
    assert message in line
    assert line.startswith(f"{tmp_path.name}/model.safetensors ")


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_is_refused_at_once(fault: str, tmp_path: Path) -> None:
    began = time.thread_time()
    line = refusal(put(tmp_path, model_safetensors=BROKEN[fault]))
    assert line.startswith(f"{tmp_path.name}/model.safetensors is broken: ")
    assert line.endswith("download the folder again")
    assert time.thread_time() - began < 2


def test_every_cut_of_a_good_file_is_refused(tmp_path: Path) -> None:
    whole = packed(GOOD, 40)
    for length in range(len(whole)):
        assert "model.safetensors" in refusal(put(tmp_path, model_safetensors=whole[:length]))


def test_a_flipped_byte_costs_one_error_at_most(tmp_path: Path) -> None:
    whole = packed(GOOD, 40)
    dice, refused = random.Random(0), 0
    for _ in range(300):
        content = bytearray(whole)
        content[dice.randrange(len(whole) - 40)] = dice.randrange(256)
        put(tmp_path, model_safetensors=bytes(content))
        try:
            assert shards.read(tmp_path).weight_bytes == 40
        except ModelFileError:
            refused += 1
    assert 150 < refused < 300


def test_a_hostile_header_costs_no_more_memory_than_a_large_model(tmp_path: Path) -> None:
    put(tmp_path, model_safetensors=packed(b'{"a":[' + b"[]," * 1_390_000 + b"0]}"))
    tracemalloc.start()
    refusal(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 << 20


# What is there, and what is not


def test_the_tensors_of_all_files_are_counted_together(tmp_path: Path) -> None:
    first, second = packed({"c": tensor(0, 6, [3], "BF16"), "__metadata__": {"a": "b"}}, 6), GOOD
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(first)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(packed(second, 40))
    (tmp_path / "adapters.safetensors").write_bytes(b"not read")
    contents = shards.read(tmp_path)
    assert contents.sizes == {"a": 8, "b": 32, "c": 6}
    assert contents.weight_bytes == 46
    assert contents.file_bytes == len(first) + len(packed(second, 40))


def test_a_file_may_say_that_it_has_no_metadata(tmp_path: Path) -> None:
    put(tmp_path, model_safetensors=packed({"__metadata__": None, **GOOD}, 40))
    assert shards.read(tmp_path).sizes == {"a": 8, "b": 32}


def test_tensors_may_be_empty_and_headers_padded(tmp_path: Path) -> None:
    header = {"a": tensor(0, 4, []), "b": tensor(4, 4, [0, 5]), "c": tensor(4, 4, [0])}
    put(tmp_path, model_safetensors=packed(json.dumps(header).encode() + b"   ", 4))
    assert shards.read(tmp_path).sizes == {"a": 4, "b": 0, "c": 0}


def test_only_the_start_of_a_file_is_read(tmp_path: Path) -> None:
    size = 1 << 40
    put(tmp_path, model_safetensors=packed({"a": tensor(0, size, [1 << 19, 1 << 20], "BF16")}))
    path = tmp_path / "model.safetensors"
    os.truncate(path, path.stat().st_size + size)
    assert shards.read(tmp_path).weight_bytes == size


@pytest.mark.parametrize("present", [[1], [1, 2], [1, 3], [2, 3], [3]])
def test_a_missing_part_is_named(present: list[int], tmp_path: Path) -> None:
    for part in present:
        (tmp_path / f"model-{part:05}-of-00003.safetensors").write_bytes(packed(GOOD, 40))
    lacking = min({1, 2, 3} - set(present))
    message = f"model-{lacking:05}-of-00003.safetensors is missing: download the folder again"
    assert message in refusal(tmp_path)


def test_a_part_of_very_many_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "model-000001-of-999999.safetensors").write_bytes(packed(GOOD, 40))
    assert "model-000002-of-999999.safetensors is missing" in refusal(tmp_path)


def indexed(folder: Path, index: object) -> Path:
    put(folder, model_safetensors=packed(GOOD, 40))
    return put(folder, model_safetensors_index_json=index)


INDEXES = {
    "lists model-b.safetensors, which is missing": {"weight_map": {"a": "model-b.safetensors"}},
    "lists ../x, which is not one of model*.safetensors": {"weight_map": {"a": "../x"}},
    "lists a?b, which is not one of": {"weight_map": {"a": "a\0b"}},
    "it has no weight_map": {},
    "has no weight_map from tensors to files": {"weight_map": [1]},
    "no weight_map from tensors to files": {"weight_map": {"a": 1}},
    "has a list as its content": [],
    "is cut short, or no JSON": b"{",
}


@pytest.mark.parametrize("message", INDEXES)
def test_an_index_lists_what_must_be_there(message: str, tmp_path: Path) -> None:
    assert message in refusal(indexed(tmp_path, INDEXES[message]))


def test_an_index_may_list_what_is_there(tmp_path: Path) -> None:
    indexed(tmp_path, {"weight_map": {"a": "model.safetensors"}})
    assert shards.read(tmp_path).weight_bytes == 40


def test_a_huge_index_is_not_read(tmp_path: Path) -> None:
    path = indexed(tmp_path, {}) / "model.safetensors.index.json"
    os.truncate(path, 40 << 20)
    assert "has 41,943,040 bytes; at most 33,554,432 are read" in refusal(tmp_path)


def test_a_tensor_may_be_in_one_file_only(tmp_path: Path) -> None:
    for name in ("model.safetensors", "model2.safetensors"):
        (tmp_path / name).write_bytes(packed({"a": tensor(0, 4, [1])}, 4))
    assert "model2.safetensors holds a, and so does model.safetensors" in refusal(tmp_path)


def test_more_tensors_than_any_model_has_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        content = packed({name: tensor(0, 4, [1]), f"{name}.scales": tensor(4, 8, [1])}, 8)
        (tmp_path / f"model-{name}.safetensors").write_bytes(content)
    assert len(shards.read(tmp_path, most=6).sizes) == 6
    line = refusal(tmp_path, lambda folder: shards.read(folder, most=5))
    assert "model-c.safetensors is broken: with it the folder has 6 tensors; at most 5" in line


def test_what_is_not_a_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    assert "model.safetensors is missing, or not a file" in refusal(tmp_path)


def test_a_link_to_nothing_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(tmp_path / "blob")
    assert "model.safetensors is missing" in refusal(tmp_path)


OTHERS = {
    "pytorch_model.bin": "it is a PyTorch model, which MLX does not read",
    "consolidated.00.pth": "it is a model as Mistral lays it out",
    "tiny-Q4_0.gguf": "it is a GGUF model: give the path of that file itself",
    "weights.npz": "it is a model of an early mlx-lm",
    "adapters.safetensors": "it is a LoRA adapter: give the folder of its model",
    "tf_model.h5": "it is a Keras model",
    "decoder.safetensors": "it is a model whose files mlx-lm does not look for",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_folder_without_weights_is_told_what_it_has_instead(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"weights")
    assert f"has no model*.safetensors; with {name}, {OTHERS[name]}" in refusal(tmp_path)


def test_a_folder_without_weights_is_to_be_downloaded_again(tmp_path: Path) -> None:
    assert "is empty: give the folder that holds the model" in refusal(tmp_path)
    (tmp_path / "README.md").touch()
    assert "has no model*.safetensors: download the folder again" in refusal(tmp_path)
