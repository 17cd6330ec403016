"""Vocabularies of folders, and files that are broken, hostile or absurd."""

from __future__ import annotations

import json
import os
import random

import pytest

from localspec.base.errors import ModelFileError
from localspec_mlx.folder.tokenizer import load_tokenizer
from localspec_mlx.folder.vocabulary import chat_template, kind
from tests.backends.tokenizer_files import add, byte_level, change, pieces, put

SIZE = 384
NAMED = [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]


def refusal(folder, size=SIZE):
    with pytest.raises(ModelFileError) as caught:
        load_tokenizer(folder, size)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 410
    assert message.startswith(folder.name)
    return message


@pytest.mark.parametrize(
    ("files", "template"),
    [
        ({}, None),
        ({"tokenizer_config.json": {"chat_template": None}}, None),
        ({"tokenizer_config.json": {"chat_template": "T"}}, "T"),
        ({"tokenizer_config.json": {"chat_template": NAMED}}, "D"),
        ({"tokenizer_config.json": {"chat_template": NAMED[:1]}}, "R"),
        ({"chat_template.json": {"chat_template": "J"}}, "J"),
        ({"chat_template.jinja": "{{ é }}"}, "{{ é }}"),
        (
            {
                "chat_template.json": {"chat_template": "J"},
                "tokenizer_config.json": {"chat_template": "T"},
            },
            "T",
        ),
        (
            {
                "chat_template.json": {"chat_template": "J"},
                "chat_template.jinja": "X",
                "tokenizer_config.json": {"chat_template": "T"},
            },
            "X",
        ),
    ],
)
def test_the_chat_template_is_the_one_the_files_agree_on(tmp_path, files, template):
    folder = byte_level(tmp_path / "model")
    change(folder, "tokenizer_config.json", chat_template=None)
    for name, content in files.items():
        put(folder, name, content)
    assert chat_template(folder) == template
    assert load_tokenizer(folder, SIZE).chat_template == template


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("chat_template.jinja", b"\xff", "is not UTF-8 at byte 0 of 1"),
        ("tokenizer_config.json", {"chat_template": 5}, "has a number as its chat_template"),
        ("tokenizer_config.json", {"chat_template": ["x"]}, "has a text as a chat_template"),
        ("tokenizer_config.json", {"chat_template": []}, "has nothing as its chat_template"),
        ("tokenizer_config.json", {"chat_template": [{"name": []}]}, "has nothing as its chat_"),
        ("chat_template.json", "[]", "has a list as its content"),
    ],
)
def test_a_broken_chat_template_is_refused_by_name(tmp_path, name, content, message):
    folder = byte_level(tmp_path / "model")
    change(folder, "tokenizer_config.json", chat_template=None)
    put(folder, name, content)
    with pytest.raises(ModelFileError) as caught:
        chat_template(folder)
    assert f"model/{name} {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"tokenizer.json": {"model": {"type": "BPE"}}}, "bpe"),
        ({"tokenizer.json": {"model": {"type": "Unigram"}}, "tokenizer.model": b"\n"}, "unigram"),
        ({"tokenizer.json": {"model": {"type": "WordPiece"}}}, "wordpiece"),
        ({"tokenizer.json": {"model": {"vocab": {}, "merges": []}}}, "bpe"),
        ({"tokenizer.json": {"model": {"vocab": []}}}, "unigram"),
        ({"tokenizer.model": b"\n\x0a", "vocab.json": "{}"}, "sentencepiece"),
        ({"tokenizer.model": b"IQ== 0\n"}, "tiktoken"),
        ({"tiktoken.model": b"IQ== 0\n"}, "tiktoken"),
        ({"tekken.json": "{}"}, "tiktoken"),
        ({"vocab.json": "{}", "merges.txt": ""}, "bpe"),
    ],
)
def test_the_kind_is_told_from_the_files_alone(tmp_path, files, found):
    for name, content in files.items():
        put(tmp_path, name, content)
    assert kind(tmp_path) == found


def test_a_folder_without_a_tokenizer_is_told_what_was_looked_for(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "tokenizer.json").mkdir()
    message = refusal(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "tekken"):
        assert name in message
    put(tmp_path / "model", "vocab.json", "{}")
    assert refusal(tmp_path / "model").startswith("model/vocab.json comes without merges.txt")


@pytest.mark.parametrize("size", [1 << 30, (64 << 20) + 1])
def test_a_file_of_absurd_size_is_refused_unread(tmp_path, size):
    folder = byte_level(tmp_path / "model")
    with (folder / "tokenizer.json").open("wb") as file:
        file.truncate(size)
    assert f"model/tokenizer.json has {size:,} bytes; at most 67,108,864" in refusal(folder)
    with pytest.raises(ModelFileError, match=f"{size:,} bytes"):
        kind(folder)


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json", "chat_template.jinja"])
def test_settings_of_absurd_size_are_refused_unread(tmp_path, name):
    folder = byte_level(tmp_path / "model")
    with (folder / name).open("wb") as file:
        file.truncate(1 << 30)
    assert f"model/{name} has 1,073,741,824 bytes; at most 8,388,608" in refusal(folder)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
def test_a_pipe_in_place_of_a_file_is_no_file(tmp_path):
    folder = byte_level(tmp_path / "model")
    os.mkfifo(folder / "generation_config.json")
    assert load_tokenizer(folder, SIZE).eos == 367
    (folder / "tokenizer.json").unlink()
    os.mkfifo(folder / "tokenizer.json")
    assert "has none of tokenizer.json" in refusal(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is cut short, or no JSON (Expecting value"),
        ('{"model": {"type": "BPE", "vocab": {"a', "is cut short, or no JSON (Unterminated"),
        ("[" * 100_000, "is cut short, or no JSON (maximum recursion depth"),
        ('{"a": ' + "9" * 5000 + "}", "is cut short, or no JSON (Exceeds the limit"),
        ('{"model": 1, "model": 2}', "is cut short, or no JSON (1 names come twice)"),
        ("[" + "[]," * 4_000_000, "has about 8,000,001 values; at most 4,194,304"),
        (b"\xff\xfe{", "is not UTF-8 at byte 0 of 3"),
        ("version https://git-lfs.github.com/spec/v1\noid", "is a git-lfs pointer"),
        ("[]", "has a list as its content, not an object"),
        ("{}", "has nothing as its model, not an object"),
        ('{"model": []}', "has a list as its model, not an object"),
        ('{"model": {"type": "XYZ"}}', "has a model of type 'XYZ'; BPE, Unigram"),
        ('{"model": {"type": ["\\n"]}}', "has a model of type ['\\n']; BPE, Unigram"),
        ('{"model": {"type": "WordPiece"}}', "is of kind wordpiece; bpe, unigram are read"),
        ('{"model": {"type": "WordLevel"}}', "is of kind wordlevel; bpe, unigram are read"),
        ('{"model": {"type": "BPE"}, "added_tokens": {"a": 1}}', "has an object as added_tokens"),
        ('{"model": {"type": "BPE"}, "added_tokens": [1]}', "has a number as an added token"),
        ('{"model": {"type": "BPE"}, "added_tokens": [{"content": "a"}]}', "an added token None"),
        ('{"model": {"type": "BPE"}, "added_tokens": [{"id": 1}]}', "has nothing as the content"),
        ('{"model": {"type": "BPE"}, "decoder": "x"}', "has a text as its decoder"),
        ('{"model": {"type": "BPE"}}', "is no tokenizer ("),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused_by_name(tmp_path, content, message):
    folder = byte_level(tmp_path / "model")
    put(folder, "tokenizer.json", content)
    error = refusal(folder)
    assert error.startswith("model/tokenizer.json ")
    assert message in error


def test_errors_can_be_shown_on_a_terminal_whatever_a_name_holds(tmp_path):
    folder = byte_level(tmp_path / "red \x1b[31m\u202e")
    put(folder, "tokenizer.json", "{}")
    with pytest.raises(ModelFileError) as caught:
        load_tokenizer(folder, SIZE)
    assert str(caught.value).isprintable()


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    folder = byte_level(tmp_path / "model")
    whole = (folder / "tokenizer.json").read_bytes()
    for size in random.Random(1).sample(range(len(whole.rstrip())), 60):
        put(folder, "tokenizer.json", whole[:size])
        assert "model/tokenizer.json" in refusal(folder)


@pytest.mark.parametrize(
    ("vocabulary", "message"),
    [
        ({}, "numbers its tokens up to -1"),
        ({"a": 0, "b": 384}, "numbers its tokens up to 384, but the model has 384"),
        ({"a": 0, "b": (1 << 32) - 1}, "numbers its tokens up to 4,294,967,295"),
        ({"a": 0, "b": -1}, "is no tokenizer"),
        ({"a": 0, "b": 1 << 40}, "is no tokenizer"),
        ({"a": 0, "b": "x"}, "is no tokenizer"),
    ],
)
def test_tokens_the_model_has_no_logits_for_are_refused(tmp_path, vocabulary, message):
    folder = byte_level(tmp_path / "model")
    change(folder, model={"type": "BPE", "vocab": vocabulary, "merges": []}, added_tokens=[])
    assert f"model/tokenizer.json {message}" in refusal(folder)


def test_numbers_that_added_tokens_would_not_get_are_refused(tmp_path):
    folder = byte_level(tmp_path / "model")
    add(folder, {"content": "<|far|>", "id": 390})
    message = refusal(folder, 400)
    assert "adds '<|far|>' as token 390, but it would be 384" in message


@pytest.mark.parametrize("name", ["generation_config.json", "config.json"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (384, "has token 384 in eos_token_id, but the model has 384 tokens"),
        ([2, -1], "has token -1 in eos_token_id"),
        (1 << 70, "has token 1,180,591,620,717,411,303,424 in"),
        ("367", "has a text in eos_token_id"),
        ([True], "has true or false in eos_token_id"),
        (367.0, "has a number in eos_token_id"),
        ([[367]], "has a list in eos_token_id"),
    ],
)
def test_ends_that_are_no_tokens_of_the_model_are_refused(tmp_path, name, value, message):
    folder = byte_level(tmp_path / "model")
    put(folder, name, {"eos_token_id": value})
    assert f"model/{name} {message}" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer_config.json", "{", "is cut short, or no JSON"),
        ("tokenizer_config.json", b'{"a": "\xff"}', "is not UTF-8 at byte 7 of 10"),
        ("tokenizer_config.json", {"eos_token": 5}, "has a number as its eos_token"),
        ("tokenizer_config.json", {"bos_token": {"content": []}}, "has a list as its bos_token"),
        ("tokenizer_config.json", {"eos_token": "<nix>"}, "has '<nix>' as its eos_token, which"),
        (
            "tokenizer_config.json",
            {"bos_token": "<|im_end|>", "add_bos_token": "yes"},
            "has a text as add_bos_token",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": [1]}, "has a list as added_tokens_d"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"5": 1}}, "has a number as token 5"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": ""}}}, "token 'x'"),
        ("special_tokens_map.json", "nonsense", "is cut short, or no JSON"),
        ("generation_config.json", "[1]", "has a list as its content"),
        ("config.json", {"text_config": 7}, "has a number as its text_config"),
    ],
)
def test_settings_that_are_broken_are_refused_by_name(tmp_path, name, content, message):
    folder = byte_level(tmp_path / "model")
    put(folder, name, content)
    error = refusal(folder)
    assert f"model/{name} " in error
    assert message in error


def test_a_template_for_texts_that_the_vocabulary_cannot_fill_is_refused(tmp_path, capfd):
    folder = pieces(tmp_path / "model")
    processor = json.loads((folder / "tokenizer.json").read_text())["post_processor"]
    change(folder, post_processor={**processor, "special_tokens": {}})
    assert "could not tokenise an empty text" in refusal(folder)
    capfd.readouterr()  # the library's own complaint
