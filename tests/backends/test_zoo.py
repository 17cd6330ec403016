"""Files that llama.cpp's own tools made of transformers' models, of one architecture each."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

import localspec
from localspec import Loading, Options, Settings

HERE = Path(__file__).parent / "zoo"
SAYS = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))["says"]
SMALL = Options(slots=2, context=256, threads=1)
# Its experts are nearly tied for some tokens: llama-server rounds otherwise, and chooses others.
ROUNDED_AS_THERE = ("qwen35moe",)


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zoo")
    with tarfile.open(HERE / "models.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.parametrize("name", SAYS)
def test_a_file_that_llama_server_runs_gives_its_tokens_alone_and_two_at_once(files, name):
    products = "llama.cpp" if name in ROUNDED_AS_THERE else "localspec"
    options = replace(SMALL, products=products)
    loading = Loading(options, proposer="ngram,suffix", depth=4)
    with localspec.load(files / f"{name}.gguf", loading=loading) as model:
        for text, tokens in SAYS[name]:
            for depth in (0, 4):
                settings = Settings(max_tokens=len(tokens), depth=depth)
                assert model.generate(text, settings).tokens == tuple(tokens)
        streams = [
            (model.stream(text, Settings(max_tokens=len(tokens)), raw=True), tuple(tokens))
            for text, tokens in SAYS[name]
        ]
        assert [stream.result.tokens for stream, _ in streams] == [said for _, said in streams]


def test_every_kept_file_has_texts_and_tokens(files):
    assert {file.stem for file in files.iterdir()} == set(SAYS)
    assert all(tokens for said in SAYS.values() for _, tokens in said)
