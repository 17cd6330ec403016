"""A file is tried in a process of its own, and the verdict remembered."""

from __future__ import annotations

import sys
from importlib import reload

import pytest

from localspec import trial
from localspec.errors import ModelFileError
from localspec.locating import Found
from tests import engines

ROOM = 1 << 34


@pytest.fixture(autouse=True)
def _as_it_is(monkeypatch, tmp_path):
    """Without what the other tests put in its place."""
    fresh = reload(trial)
    monkeypatch.setattr(fresh, "_folder", lambda: tmp_path / "trials")
    yield
    monkeypatch.undo()
    trial.passed = lambda place, room: None


def place(seed: int = 0) -> Found:
    return Found("llamacpp", engines.tiny("llama", seed=seed))


def command(monkeypatch, code: str) -> None:
    monkeypatch.setattr(trial, "COMMAND", (sys.executable, "-c", code))


def test_what_runs_passes_and_is_not_tried_again(monkeypatch):
    trial.passed(place(), ROOM)
    command(monkeypatch, "raise SystemExit('tried again')")
    trial.passed(place(), ROOM)


def test_an_engine_that_dies_takes_nobody_along_and_is_not_asked_again(monkeypatch):
    command(monkeypatch, "import os, sys; print('GGML_ASSERT(x)', file=sys.stderr); os.abort()")
    with pytest.raises(ModelFileError, match=r"it kills its engine \(SIGABRT\): GGML_ASSERT\(x\)"):
        trial.passed(place(), ROOM)
    command(monkeypatch, "pass")
    with pytest.raises(ModelFileError, match="SIGABRT"):
        trial.passed(place(), ROOM)
    trial.passed(place(seed=5), ROOM)  # another file


def test_what_its_engine_refuses_is_told(monkeypatch, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(400))
    with pytest.raises(ModelFileError, match=r"cannot be used: broken\.gguf"):
        trial.passed(Found("llamacpp", broken), ROOM)


def test_where_there_is_no_room_nothing_is_decided(monkeypatch):
    trial.passed(place(), 1000)
    assert not list(trial._folder().glob("*"))
    command(monkeypatch, "import os; os.abort()")
    with pytest.raises(ModelFileError):
        trial.passed(place(), ROOM)


def test_who_takes_for_ever_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", 0.5)
    command(monkeypatch, "import time; time.sleep(60)")
    with pytest.raises(ModelFileError, match="did not decode 4 tokens"):
        trial.passed(place(), ROOM)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no MLX for it")
def test_a_folder_is_tried_too():
    trial.passed(Found("mlx", engines.tiny_folder("llama")), ROOM)
    assert len(list(trial._folder().glob("*.json"))) == 1
