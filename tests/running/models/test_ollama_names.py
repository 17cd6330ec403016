"""Models by the names that Ollama gives them."""

from __future__ import annotations

import pytest

from localspec.apps.command_line import run
from localspec.apps.server.offers import Offers, broken_offer
from localspec.running.models import catalogue
from localspec.running.models.ollama_names import listed_name, meant


@pytest.mark.parametrize(
    ("typed", "listed"),
    [
        ("qwen3:8b", "qwen3-8b"),
        ("Qwen3:8B", "qwen3-8b"),
        ("qwen3", "qwen3-8b"),
        ("qwen3:latest", "qwen3-8b"),
        ("qwen3:30b-a3b", "qwen3-30b-a3b"),
        ("llama3.2", "llama-3.2-3b"),
        ("llama3.2:1b", "llama-3.2-1b"),
        ("llama3.1", "llama-3.1-8b"),
        ("gemma3:4b-it-qat", "gemma-3-4b"),
        ("gemma4", "gemma-4-e4b"),
        ("qwen2.5-coder:7b", "qwen2.5-coder-7b"),
        ("qwen2.5:7b-instruct-q8_0", "qwen2.5-7b:q8_0"),
        ("llama3.2:3b-instruct-q4_K_M", "llama-3.2-3b:q4_k_m"),
        ("qwen3-embedding:0.6b", "qwen3-embedding-0.6b"),
        ("smollm2:135m", "smollm2-135m"),
    ],
)
def test_a_name_of_ollamas_means_the_same_model_of_the_catalogue(typed, listed):
    assert listed_name(typed) == listed


@pytest.mark.parametrize(
    "text",
    ["qwen3-8b", "qwen3-8b:q8_0", "qwen3:9b", "qwen", "what: is it", "hf:a/b", "./qwen3:8b", ""],
)
def test_any_other_text_means_itself(text):
    assert listed_name(text) == text


def test_every_name_of_the_catalogue_means_itself_only():
    for name in catalogue.names():
        assert listed_name(name) == name
        assert meant(name, catalogue.names()) in (name, "")


def test_a_file_with_such_a_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qwen3:8b").touch()
    assert listed_name("qwen3:8b") == "qwen3:8b"


def test_commands_and_requests_take_these_names(capsys):
    assert run(["show", "qwen3:8b"]) == 0
    assert capsys.readouterr().out.startswith("qwen3-8b: ")
    assert run(["generate", "llama3.2:1b", "hi"]) == 2
    assert "llama-3.2-1b is not here yet: localspec pull llama-3.2-1b" in capsys.readouterr().err
    offers = Offers({"qwen3-8b": broken_offer("qwen3-8b", "llamacpp", "")})
    assert offers.knows("qwen3:8b")
    assert not offers.knows("qwen3:4b")
