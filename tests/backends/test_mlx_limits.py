"""Tokenizers that would exhaust the library or kill it: refused before it sees them."""

from __future__ import annotations

import json

import pytest

from tests.backends.test_mlx_vocabulary import refusal
from tests.backends.tokenizer_files import add, byte_level, change, unigram

SIZE = 384


def sequence(part, *steps):
    return {"type": "Sequence", part: list(steps)}


def split(pattern):
    regex = {"Regex": pattern}
    return {"type": "Split", "pattern": regex, "behavior": "Isolated", "invert": False}


DOUBLED = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
TWICE = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 2,
    "pair": [],
    "special_tokens": {},
}
CTC = {"type": "CTC", "pad_token": "", "word_delimiter_token": "|", "cleanup": False}
NESTED = {"type": "Lowercase"}
for _ in range(200):
    NESTED = sequence("normalizers", NESTED)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": sequence("normalizers", *[DOUBLED] * 30)}, "1,073,741,824 times"),
        ({"normalizer": sequence("normalizers", *[DOUBLED] * 4000)}, "4,000 steps"),
        ({"normalizer": NESTED}, "is no tokenizer (recursion limit"),
        ({"post_processor": sequence("processors", *[TWICE] * 30)}, "30 templates"),
        ({"pre_tokenizer": split("(" * 2000 + ")" * 2000)}, "2,000 brackets"),
        ({"pre_tokenizer": split("a" * 9000)}, "9,000 letters"),
        ({"pre_tokenizer": split("(((")}, "is no tokenizer (Oniguruma"),
        ({"pre_tokenizer": {**sequence("pretokenizers"), **split("[" * 2000)}}, "2,000 brackets"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "!"}}, "is no tokenizer"),
        ({"decoder": CTC}, "makes text of tokens by CTC"),
        ({"decoder": None, "pre_tokenizer": None}, "has no decoder"),
        ({"decoder": {**DOUBLED, "pattern": {"Regex": "a"}}}, "by a regular expression"),
    ],
)
def test_steps_the_library_would_choke_on_are_refused(tmp_path, changes, message, capfd):
    folder = byte_level(tmp_path / "model")
    change(folder, **changes)
    error = refusal(folder)
    assert error.startswith("model/tokenizer.json")
    assert message in error
    capfd.readouterr()  # the library's own complaint


def test_added_tokens_the_library_would_choke_on_are_refused(tmp_path):
    folder = byte_level(tmp_path / "model")
    entries = {"384": {"content": "x" * (3 << 20)}}
    change(folder, "tokenizer_config.json", added_tokens_decoder=entries)
    message = refusal(folder, SIZE + 1)
    assert message.startswith("model/tokenizer_config.json has 3,145,728 letters")
    add(folder, {"content": "x" * (3 << 20)})
    assert refusal(folder, SIZE + 1).startswith("model/tokenizer.json has 3,1")


@pytest.mark.parametrize(("longest", "count"), [(1 << 20, 1), (4000, 2000)])
def test_pieces_the_library_would_die_of_are_refused(tmp_path, longest, count):
    folder = unigram(tmp_path / "model")
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    long = [[f"{at}" + "a" * longest, -1.0] for at in range(count)]
    change(folder, model={**model, "vocab": [*model["vocab"], *long]})
    assert "bytes in " in refusal(folder, SIZE + count)
