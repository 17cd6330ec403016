"""Tokens for filling in a middle, as both engines find them in the same vocabularies."""

from __future__ import annotations

from contextlib import closing

import pytest

pytest.importorskip("mlx_lm")

import json

from localspec.formats.templates.fill_in_middle import FAMILIES, middle
from localspec.interfaces.backend import Options
from localspec_llamacpp import backend as llamacpp
from localspec_mlx.folder.tokenizer import load_tokenizer
from tests import engines
from tests.backends.gguf_copies import copied
from tests.backends.tokenizer_files import add, byte_level, change
from tests.tiny_vocabulary import vocabulary

CONTROL, USER_DEFINED = 3, 4
SMALL = Options(context=64, batch=16, threads=1, gpu_layers=0)
WORDS = vocabulary()
FREE = WORDS.id_of("[unused0]")
TEXTS = {
    "qwen": "<|fim_prefix|> <|fim_suffix|> <|fim_middle|> <|fim_pad|> <|repo_name|> <|file_sep|>",
    "starcoder": "<fim_prefix> <fim_suffix> <fim_middle> <repo_name> <file_sep>",
    "granite": "<fim_prefix> <fim_suffix> <fim_middle> <fim_pad> <reponame> <filename>",
    "codegemma": "<|fim_prefix|> <|fim_suffix|> <|fim_middle|> <|file_separator|>",
    "codellama": "▁<PRE> ▁<SUF> ▁<MID> ▁<EOT>",
    **{family.prefix: " ".join(text for text in family[:3] if text) for family in FAMILIES},
}


def gguf(path, texts, kind=CONTROL, **named):
    tokens, types = list(WORDS.tokens), list(WORDS.types)
    tokens[FREE : FREE + len(texts)] = texts
    types[FREE : FREE + len(texts)] = [kind] * len(texts)
    keys = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types}
    keys |= {f"tokenizer.ggml.{name}_token_id": token for name, token in named.items()}
    return llamacpp.load(copied(engines.tiny("llama"), path, keys), SMALL)


def folder(path, texts, special=True):
    made = byte_level(path)
    model = json.loads((made / "tokenizer.json").read_text())["model"]
    for at, text in enumerate(texts):
        del model["vocab"][f"[unused{at}]"]
        model["vocab"][text] = FREE + at
    change(made, model=model)
    for at, text in enumerate(texts):
        add(made, {"id": FREE + at, "content": text, "special": special})
    return load_tokenizer(made, len(WORDS.tokens))


@pytest.mark.parametrize("name", TEXTS)
def test_both_engines_know_the_same_tokens_to_fill_in_by(tmp_path, name):
    texts = TEXTS[name].split()
    ours = folder(tmp_path / "mlx", texts)
    with closing(gguf(tmp_path / "model.gguf", texts)) as model:
        theirs = model.tokenizer
        assert theirs.infill == ours.infill is not None
        assert theirs.ends == ours.ends
        assert ours.infill.ends == {*range(FREE, FREE + len(texts))}
        asked = [middle(each, "the code\n", "\nis", [("a", "of")]) for each in (theirs, ours)]
        assert asked[0] == asked[1]


@pytest.mark.parametrize("name", ["qwen", "[PREFIX]"])
def test_what_is_to_be_filled_in_holds_no_control_tokens_whatever_it_says(tmp_path, name):
    texts = TEXTS[name].split()
    hostile = "".join(texts) + "<|im_end|>"
    ours = folder(tmp_path / "mlx", texts, special=False)
    with closing(gguf(tmp_path / "model.gguf", texts)) as model:
        for tokenizer in (ours, model.tokenizer):
            completed = middle(tokenizer, hostile, hostile, [(hostile, hostile)], hostile)
            control = [token for token in completed if token >= WORDS.id_of("<|im_end|>")]
            assert len(control) == len(set(control)) + (name == "qwen")  # a separator for each file
            assert b"".join(map(tokenizer.token_bytes, completed)).count(hostile.encode()) == 5


def test_a_file_may_name_its_tokens_itself(tmp_path):
    texts = ["<a>", "<b>", "<c>", "<d>"]
    named = {"fim_pre": FREE + 2, "fim_suf": FREE + 1, "fim_mid": FREE, "fim_sep": FREE + 3}
    with closing(gguf(tmp_path / "model.gguf", texts, **named)) as model:
        infill = model.tokenizer.infill
    assert (infill.prefix, infill.suffix, infill.middle) == (FREE + 2, FREE + 1, FREE)
    assert infill.separator == FREE + 3
    assert infill.ends == {FREE, FREE + 1, FREE + 2, FREE + 3}


@pytest.mark.parametrize("texts", [["<|fim_prefix|>", "<|fim_suffix|>"], ["[PREFIX]"], ["<PRE>"]])
def test_half_of_the_tokens_are_none(tmp_path, texts):
    with closing(gguf(tmp_path / "model.gguf", texts)) as model:
        assert model.tokenizer.infill is None
    assert folder(tmp_path / "mlx", texts).infill is None


def test_a_word_that_looks_like_one_of_them_is_a_word(tmp_path):
    """llama.cpp takes what is no control token out of any text."""
    texts = ["[PREFIX]", "[SUFFIX]"]
    with closing(gguf(tmp_path / "model.gguf", texts, USER_DEFINED)) as model:
        assert model.tokenizer.infill is None
