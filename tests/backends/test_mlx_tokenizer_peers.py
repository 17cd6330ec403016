"""Tokenizers of model folders beside other programs that read the same vocabularies."""

from __future__ import annotations

import base64
import io
from contextlib import closing, suppress

import llama_cpp
import pytest
import sentencepiece

from localspec.base.errors import ModelFileError
from localspec.interfaces.backend import Options
from localspec_llamacpp import backend as llamacpp
from localspec_mlx.folder.tokenizer import load_tokenizer
from localspec_mlx.folder.vocabulary import kind
from tests.backends.test_mlx_tokenizer import SIZE, TEXTS, said
from tests.backends.tokenizer_files import SHARED, from_gguf, put
from tests.tiny_vocabulary import BEGIN, END, TURN, vocabulary

pytestmark = pytest.mark.long

CORPUS = ["the code is the code and the sea", "naïve café 漢字", "return a + b", "def add(a, b):"]

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data is not here")


@needs_shared
@pytest.mark.parametrize("name", ["qwen2", "llama-bpe", "gpt-2", "llama-spm"])
def test_a_vocabulary_gives_the_tokens_that_llama_cpp_finds(tmp_path, name):
    path = SHARED / "vocab" / f"ggml-vocab-{name}.gguf"
    ours = load_tokenizer(tmp_path / "model", from_gguf(path, tmp_path / "model"))
    with closing(llama_cpp.Llama(str(path), vocab_only=True, verbose=False)) as theirs:
        for text in (*TEXTS, "\ud800", "<0x0A>", "\u017f '\u017f \u212a"):
            if name != "llama-spm":  # for llama.cpp it is a control token, whatever the file says
                text = text.replace("</s>", "")
            raw = text.encode("utf-8", "replace")
            for special in (False, True):
                expected = theirs.tokenize(raw, add_bos=False, special=special)
                assert ours.encode(text, special=special).tolist() == expected
            back = said(ours, ours.encode(text).tolist())
            assert back == raw or (name == "llama-spm" and back == b" " + raw)


@needs_shared
def test_every_token_is_what_it_is_to_llama_cpp(tmp_path):
    path = SHARED / "models" / "llama.gguf"
    size = from_gguf(path, tmp_path / "model")
    put(tmp_path / "model", "tokenizer_config.json", {"bos_token": TURN, "eos_token": END})
    ours = load_tokenizer(tmp_path / "model", size)
    options = Options(slots=1, context=64, threads=1)
    with closing(llamacpp.load(path, options)) as model:
        theirs = model.tokenizer
        assert (ours.size, ours.bos, ours.eos) == (theirs.size, theirs.bos, theirs.eos)
        assert ours.ends == theirs.ends
        for token in range(size):
            assert ours.token_text(token) == theirs.token_text(token)
            assert ours.token_bytes(token) == theirs.token_bytes(token)
        for text in TEXTS:
            for special in (False, True):
                expected = theirs.encode(text, special=special).tolist()
                assert ours.encode(text, special=special).tolist() == expected


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_a_sentencepiece_model_is_read_without_a_tokenizer_json(tmp_path, algorithm):
    folder, model = tmp_path / "model", io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 20),
        model_writer=model,
        model_type=algorithm,
        vocab_size=300,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=3,
    )
    folder.mkdir()
    put(folder, "tokenizer.model", model.getvalue())
    put(folder, "config.json", {"model_type": "llama"})
    put(folder, "tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer"})
    ours = load_tokenizer(folder, SIZE)
    assert (kind(folder), ours.bos, ours.eos, ours.ends) == ("sentencepiece", 1, 2, {2})
    assert ours.encode("</s>", special=True).tolist() == [2]
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for text in (*CORPUS, "😀 the\tsea\n", "the </s> code"):
        tokens = ours.encode(text).tolist()
        assert algorithm == "unigram" or tokens == theirs.encode(text)
        assert said(ours, tokens) == f" {text}".encode()
        assert 2 not in tokens


def merged(folder, **files):
    """GPT-2's two files, and whatever else."""
    words = vocabulary()
    folder.mkdir()
    put(folder, "vocab.json", {text: at for at, text in enumerate(words.tokens)})
    put(folder, "merges.txt", "\n".join(["#version: 0.2", *words.merges]))
    put(folder, "config.json", {"model_type": "qwen2"})
    names = {"bos_token": BEGIN, "eos_token": END, "unk_token": BEGIN}
    put(folder, "tokenizer_config.json", {"tokenizer_class": "Qwen2Tokenizer", **names})
    for name, content in files.items():
        put(folder, name, content)
    return folder


def test_words_and_merges_are_read_without_a_tokenizer_json(tmp_path):
    folder = merged(tmp_path / "model")
    tokenizer = load_tokenizer(folder, SIZE)
    assert kind(folder) == tokenizer.kind == "bpe"
    assert (tokenizer.bos, tokenizer.eos, tokenizer.ends) == (365, 367, {365, 367})
    tokens = tokenizer.encode("the code<|im_end|>", special=True).tolist()
    assert [tokenizer.token_text(token) for token in tokens] == ["t", "he", "Ġcode", END]
    assert said(tokenizer, tokenizer.encode(TEXTS[0]).tolist()) == TEXTS[0].encode()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"merges.txt": b"\xff\xfe"}, "model/vocab.json could not be made a tokenizer.json"),
        ({"vocab.json": "[1]"}, "model/vocab.json could not be made a tokenizer.json"),
        ({"config.json": "{"}, "take a folder that has one"),
        ({"tokenizer.model": b"\n\x05broken"}, "model/tokenizer.model could not be made"),
        (
            {"tokenizer.model": base64.b64encode(b"a") + b" none\n"},
            "model/tokenizer.model could not",
        ),
        ({"tokenizer.model": b"version https://git-lfs.github.com"}, "is a git-lfs pointer"),
    ],
)
def test_older_files_that_are_broken_are_refused_by_name(tmp_path, files, message):
    folder = merged(tmp_path / "model", **files)
    with pytest.raises(ModelFileError) as caught:
        load_tokenizer(folder, SIZE)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["Qwen2Tokenizer", "Evil"])
def test_code_in_a_folder_is_not_run(tmp_path, name):
    evil = f"open({str(tmp_path / 'ran')!r}, 'w')\nclass {name}: ..."
    maps = {"tokenizer_class": name, "auto_map": {"AutoTokenizer": [f"evil.{name}", None]}}
    folder = merged(tmp_path / "model", **{"tokenizer_config.json": maps, "evil.py": evil})
    put(folder, "config.json", {"model_type": "evil" if name == "Evil" else "qwen2"})
    with suppress(ModelFileError):
        load_tokenizer(folder, SIZE)
    assert not (tmp_path / "ran").exists()


def test_older_files_of_absurd_size_are_not_given_to_transformers(tmp_path):
    folder = merged(tmp_path / "model")
    with (folder / "added_tokens.json").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ModelFileError, match=r"added_tokens\.json has 1,073,741,824 bytes"):
        load_tokenizer(folder, SIZE)
