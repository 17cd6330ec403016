"""`localspec embed`: the vectors of files, on standard output or in a file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from localspec.apps.command_line import run
from localspec.console.progress.progress_bar import TEXTS, Progress
from tests import engines, tiny_bert

LINES = "the sea\n\nthe code is the code\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_bert.write(tmp_path_factory.mktemp("bert") / "mean.gguf", "mean"))


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text(LINES)
    return path


def embed(*arguments):
    return run(["embed", "--threads", "1", *map(str, arguments)])


def test_each_line_has_a_vector_and_its_place(model, texts, capsys):
    assert embed(model, texts) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["file"], line["line"]) for line in lines] == [(str(texts), 1), (str(texts), 3)]
    assert np.allclose([np.linalg.norm(line["vector"]) for line in lines], 1)
    assert len(lines[0]["vector"]) == tiny_bert.WIDTH


def test_a_file_may_be_one_text(model, texts, capsys):
    assert embed(model, "--whole", texts, texts) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert np.allclose(lines[0]["vector"], lines[1]["vector"], atol=1e-4)
    assert lines[0].keys() == {"file", "vector"}


def test_an_array_has_a_row_for_each_text(model, texts, tmp_path, capsys):
    assert embed(model, texts) == 0
    lines = [json.loads(line)["vector"] for line in capsys.readouterr().out.splitlines()]
    out = tmp_path / "out.npy"
    assert embed(model, texts, "--out", out, "--dimensions", "16") == 0
    rows = np.load(out)
    assert (rows.shape, rows.dtype) == ((2, 16), np.dtype("<f4"))
    short = np.array(lines)[:, :16]
    assert np.allclose(rows, short / np.linalg.norm(short, axis=1, keepdims=True), atol=1e-6)
    assert embed(model, texts, "--out", tmp_path / "out.jsonl") == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "vectors.txt"], "must end in .npy or .jsonl"),
        (["--dimensions", "65"], "dimensions is 65; this model has 64"),
        (["--draft", "x"], "--draft is for models that continue text"),
    ],
)
def test_what_cannot_be_met_is_said_in_a_line(model, texts, capsys, options, words):
    assert embed(model, texts, *options) == 2
    assert words in capsys.readouterr().err


def test_a_text_that_is_too_long_is_cut_if_that_is_wished(model, tmp_path, capsys):
    long = tmp_path / "long.txt"
    long.write_text("sea " * 600)
    out = tmp_path / "out.npy"
    assert embed(model, long, "--out", out) == 2
    assert "602 tokens" in capsys.readouterr().err
    assert not list(tmp_path.glob("*out*"))
    assert embed(model, long, "--truncate", "--out", out) == 0
    assert np.load(out).shape == (1, 64)


def test_files_without_text_and_models_of_text_are_refused(model, texts, tmp_path, capsys):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    assert embed(model, empty) == 2
    assert "there is no text in" in capsys.readouterr().err
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    assert embed(model, binary) == 2
    assert "cannot be read as text" in capsys.readouterr().err
    assert embed(engines.tiny("llama"), texts) == 2
    assert "continues text" in capsys.readouterr().err


def test_the_bar_counts_texts():
    times = iter(range(0, 100, 10))
    with Progress(2000, clock=lambda: next(times), unit=TEXTS) as bar:
        bar(500)
        assert "25% of 2,000 texts, 50.0 texts/s, 30 s left" in bar.line()
