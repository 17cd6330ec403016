"""Models that Ollama and LM Studio have downloaded, found by name and served where they lie."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from localspec.apps.command_line import run
from localspec.base.errors import UsageError
from localspec.running.models import other_stores, pulled_files, store
from localspec.running.models.locate import locate
from tests import engines

LAYER = "application/vnd.ollama.image."


@pytest.fixture
def ollama(tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    return tmp_path / "ollama"


@pytest.fixture
def lm_studio(tmp_path, monkeypatch):
    monkeypatch.setattr(other_stores, "lm_studio_folders", lambda: [tmp_path / "lmstudio"])
    return tmp_path / "lmstudio"


def blob(store: Path, kind: str, source: Path) -> dict[str, object]:
    """Put a file into a store of Ollama's; return the layer that names it."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    path = store / "blobs" / f"sha256-{digest}"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, path)
    size = source.stat().st_size
    return {"mediaType": LAYER + kind, "digest": f"sha256:{digest}", "size": size}


def manifest(store: Path, name: str, *layers: object) -> Path:
    path = store / "manifests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return path


def names() -> list[str]:
    return [f"{pair.name}:{pair.weights}" for pair in other_stores.everything()]


@pytest.fixture
def llama():
    return engines.tiny("llama")


def test_a_model_of_ollama_has_its_name_and_lies_where_it_lay(ollama, llama, capsys):
    layer = blob(ollama, "model", llama)
    manifest(ollama, "registry.ollama.ai/library/tiny/latest", layer)
    manifest(ollama, "registry.ollama.ai/somebody/tiny/1b", layer)
    manifest(ollama, "hf.co/org/Tiny-GGUF/Q4_K_M", layer)
    assert sorted(names()) == [
        "hf.co/org/Tiny-GGUF:Q4_K_M",
        "registry.ollama.ai/somebody/tiny:1b",
        "tiny:latest",
    ]
    for name in ("tiny", "tiny:latest", "hf.co/org/Tiny-GGUF"):
        assert locate(name).path == ollama / "blobs" / f"sha256-{str(layer['digest'])[7:]}"
    assert run(["list"]) == 0
    assert "in Ollama's store" in capsys.readouterr().out
    assert run(["generate", "tiny", "abc", "--max-tokens", "3", "--threads", "1"]) == 0
    assert run(["verify-files", "tiny"]) == 0


def test_it_is_removed_by_its_own_program_alone(ollama, llama):
    manifest(ollama, "registry.ollama.ai/library/tiny/latest", blob(ollama, "model", llama))
    with pytest.raises(UsageError, match="tiny lies in Ollama's store: remove it there"):
        pulled_files.forget(store.find("tiny"))
    pulled_files.copy(store.find("tiny"), "mine")
    assert locate("mine").path == locate("tiny").path
    pulled_files.forget(store.find("mine"))
    assert locate("tiny").path.exists()
    assert not store.find("mine")


def test_its_projector_is_taken_and_a_model_with_an_adapter_is_not(ollama, llama):
    layers = [blob(ollama, "model", llama), blob(ollama, "projector", engines.tiny("qwen3"))]
    manifest(ollama, "registry.ollama.ai/library/sees/4b", *layers)
    manifest(
        ollama, "registry.ollama.ai/library/tuned/4b", layers[0], blob(ollama, "adapter", llama)
    )
    assert names() == ["sees:4b"]
    assert locate("sees").projector is not None


ODD_LAYERS = (
    3,
    [{}],
    [{"mediaType": 3, "digest": 4}],
    [{"mediaType": f"{LAYER}model", "digest": "sha256:../../x", "size": 1}],
    [{"mediaType": f"{LAYER}model", "digest": f"sha256:{'0' * 64}", "size": "x"}],
)


@pytest.mark.parametrize(
    "text", ["", "[]", "[" * 100_000, *(json.dumps({"layers": odd}) for odd in ODD_LAYERS)]
)
def test_a_manifest_that_is_none_is_passed_over(ollama, text):
    manifest(ollama, "registry.ollama.ai/library/odd/latest").write_text(text)
    assert names() == []


def test_a_model_whose_blob_is_gone_is_not_found_and_told_so(ollama, llama, capsys):
    layer = blob(ollama, "model", llama)
    manifest(ollama, "registry.ollama.ai/library/tiny/latest", layer)
    shutil.rmtree(ollama / "blobs")
    assert not store.find("tiny")
    assert run(["list"]) == 0
    assert "files are missing" in capsys.readouterr().out


def test_models_of_lm_studio_are_named_by_their_folders_and_weights(lm_studio, llama):
    folder = lm_studio / "org" / "Tiny-1B-GGUF"
    folder.mkdir(parents=True)
    for name in ("Tiny-1B-Q4_K_M.gguf", "Tiny-1B-Q8_0.gguf", "mmproj-Tiny-1B-f16.gguf"):
        shutil.copy(llama, folder / name)
    (folder / "Tiny-1B-F16-00001-of-00002.gguf").touch()
    (lm_studio / "a file").touch()
    assert names() == ["tiny-1b:q4_k_m", "tiny-1b:q8_0"]
    assert locate("tiny-1b:q8_0").path == folder / "Tiny-1B-Q8_0.gguf"


def test_what_was_pulled_comes_before_what_others_have(ollama, lm_studio, llama, tmp_path):
    manifest(ollama, "registry.ollama.ai/library/tiny/latest", blob(ollama, "model", llama))
    pulled_files.copy(store.find("tiny"), "own")
    manifest(ollama, "registry.ollama.ai/library/own/latest", blob(ollama, "model", llama))
    assert [pair.owner for pair in store.find("own")] == ["", "Ollama"]
    pulled_files.forget([pair for pair in store.find("own") if not pair.owner])


def test_folders_that_nobody_may_read_are_empty(monkeypatch, tmp_path):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "nowhere"))
    monkeypatch.setattr(other_stores, "lm_studio_folders", lambda: [Path("/proc/1/root")])
    assert names() == []
