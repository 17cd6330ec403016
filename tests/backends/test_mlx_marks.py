"""The tokens that begin and end texts, as the files of a folder name them."""

from __future__ import annotations

import pytest

from localspec_mlx.folder.tokenizer import load_tokenizer
from tests.backends.tokenizer_files import add, byte_level, change, pieces, put
from tests.tiny_vocabulary import vocabulary

SIZE = 384
THE = vocabulary().id_of("Ġthe")


def test_texts_begin_with_a_token_where_the_file_or_the_settings_say_so(tmp_path):
    written = load_tokenizer(pieces(tmp_path / "a"), SIZE)
    folder = pieces(tmp_path / "b", starts=False)
    silent = load_tokenizer(folder, SIZE)
    change(folder, "tokenizer_config.json", add_bos_token=True)
    wished = load_tokenizer(folder, SIZE)
    change(tmp_path / "a", "tokenizer_config.json", bos_token="<unk>")
    other = load_tokenizer(tmp_path / "a", SIZE)
    assert (other.bos, other.starts) == (0, False)
    assert [each.starts for each in (written, silent, wished)] == [True, False, True]
    assert [each.bos for each in (written, silent, wished)] == [1, 1, 1]
    assert all(1 not in each.encode("the").tolist() for each in (written, silent, wished))


@pytest.mark.parametrize(
    ("settings", "config", "bos", "eos"),
    [
        ({"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"}, {}, 365, 367),
        ({"bos_token": {"content": "<|im_start|>"}, "eos_token": "Ġthe"}, {}, 366, THE),
        ({"bos_token": None, "eos_token": ""}, {"bos_token_id": 3, "eos_token_id": 4}, None, None),
        ({}, {"bos_token_id": 365, "eos_token_id": [367, 366]}, 365, 367),
        ({}, {}, None, None),
    ],
)
def test_the_first_and_the_last_token_are_those_the_settings_name(
    tmp_path, settings, config, bos, eos
):
    folder = byte_level(tmp_path / "model")
    put(folder, "tokenizer_config.json", settings)
    put(folder, "config.json", config)
    tokenizer = load_tokenizer(folder, SIZE)
    assert (tokenizer.bos, tokenizer.eos) == (bos, eos)
    assert eos is None or eos in tokenizer.ends


def test_the_older_file_of_special_tokens_counts_where_no_tokens_are_listed(tmp_path):
    folder = byte_level(tmp_path / "model")
    put(folder, "special_tokens_map.json", {"eos_token": {"content": "<|endoftext|>"}})
    assert load_tokenizer(folder, SIZE).eos == 365
    change(folder, "tokenizer_config.json", added_tokens_decoder={})
    assert load_tokenizer(folder, SIZE).eos == 367


@pytest.mark.parametrize(
    ("name", "content", "ends"),
    [
        ("generation_config.json", {"eos_token_id": 5}, {5}),
        ("generation_config.json", {"eos_token_id": [5, 6]}, {5, 6}),
        ("generation_config.json", {"eos_token_id": None}, set()),
        ("config.json", {"eos_token_id": [7]}, {7}),
        ("config.json", {"eos_token_id": 7, "text_config": {"eos_token_id": [8, 9]}}, {7, 8, 9}),
    ],
)
def test_a_reply_ends_where_any_file_says_so(tmp_path, name, content, ends):
    folder = byte_level(tmp_path / "model")
    put(folder, name, content)
    assert load_tokenizer(folder, SIZE).ends == {365, 367} | ends


@pytest.mark.parametrize(
    ("texts", "special", "ends"),
    [
        (["<|eot_id|>", "<end_of_turn>", "<|x|>"], True, ["<|eot_id|>", "<end_of_turn>"]),
        (["<|eot_id|>", "<end_of_turn>", "</s>"], False, []),
        (["</s>"], True, []),
        (["<|end|>", "<|call|>"], True, ["<|end|>", "<|call|>"]),
        (["<|return|>", "<|call|>", "<|end|>"], True, ["<|return|>", "<|call|>"]),
        (["<|calls|>", "<|flush|>", "<|end|>"], True, ["<|calls|>", "<|flush|>"]),
        (["<|fim_pad|>", "<|file_sep|>", "<|fim_middle|>"], False, ["<|fim_pad|>", "<|file_sep|>"]),
    ],
)
def test_well_known_control_tokens_end_a_reply(tmp_path, texts, special, ends):
    folder = byte_level(tmp_path / "model")
    add(folder, *({"content": text, "special": special} for text in texts))
    tokenizer = load_tokenizer(folder, SIZE + len(texts))
    found = [tokenizer.token_text(token) for token in sorted(tokenizer.ends)]
    assert found == ["<|endoftext|>", "<|im_end|>", *ends]
    assert {tokenizer.token_bytes(token) for token in tokenizer.ends} == {b""}
    for text in ends:
        assert not tokenizer.ends & {*tokenizer.encode(text).tolist()}
