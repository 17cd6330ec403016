"""The model that is chosen where none is named."""

from __future__ import annotations

import io
from contextlib import nullcontext

import pytest

from localspec.chat import choice, command, session
from localspec.chat.choice import STARTER
from localspec.chat.session import Said, Session
from localspec.chat.speakers.here import Here
from localspec.engine.settings import Settings
from localspec.errors import NotPulled
from localspec.memory.planner import Limits
from localspec.models import store
from localspec.models.catalogue import entries
from localspec.models.store import File, PulledPair, StoredModel
from localspec.runtime.loading import Loading
from tests import engines

ROOMY = Loading(limits=Limits("cpu", 64 << 30, supposed=True))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return tmp_path


def pull(name, path, *, size=None):
    actual = path.stat().st_size
    file = File(path, size or actual, "", large=True)
    store.keep(PulledPair(name, "Q8_0", "llamacpp", StoredModel(f"hf:some/{name}", path, (file,))))


def talked(model):
    found = Session(model, said=[Said("user", "hi"), Said("assistant", "ho")])
    found.keep()


def test_nobody_is_known_at_first():
    assert choice.chosen(ROOMY) == ""


def test_the_largest_that_is_here_whole_and_fits_comes_before_smaller_ones(home):
    small, large = sorted(
        (engines.tiny("llama"), engines.tiny("mamba2")), key=lambda path: path.stat().st_size
    )
    broken = home / "broken.gguf"
    broken.write_bytes(b"x" * (large.stat().st_size + 1))
    pull("small", small)
    pull("large", large)
    pull("partial", small, size=1 << 40)
    pull("broken", broken)
    assert choice.chosen(ROOMY) == "large:Q8_0"
    assert choice.chosen(Loading(limits=Limits("cpu", 1, supposed=True))) == ""


def test_the_one_used_last_comes_before_all_others_if_it_is_still_here():
    pull("small", engines.tiny("llama"))
    pull("large", engines.tiny("mamba2"))
    for name in ("small", "small:Q8_0", str(engines.tiny("llama"))):
        talked(name)
        assert choice.chosen(ROOMY) == name
    talked("gone")
    assert choice.chosen(ROOMY) == "large:Q8_0"


def test_what_fits_is_offered_by_what_it_takes():
    found = {}
    for gigabytes in (1, 4, 64):
        better = choice.better(Loading(limits=Limits("cpu", gigabytes << 30, supposed=True)))
        found[gigabytes] = better and better.name
    assert found[4] != found[64]
    assert None not in (found[4], found[64])
    weights = entries()[found[64]].offers["gguf"].weights
    assert min(each.bytes for each in weights.values()) <= choice.ON_CPU
    assert STARTER not in found.values()
    assert all("chat" in entries()[name].good_at for name in found.values() if name)
    assert choice.better(Loading(limits=Limits("cpu", 1, supposed=True))) is None


def chosen(name="", before="", *, asks=True, loading=ROOMY):
    door = Here(loading, None, Settings(), frozenset())
    return command.chosen(door, name, before, loading, asks=asks)


def test_a_name_comes_first_then_the_conversation_then_what_suits():
    pull("small", engines.tiny("llama"))
    pull("large", engines.tiny("mamba2"))
    assert chosen("small", "large") == "small"
    assert chosen("", "large") == "large"
    talked("small")
    assert chosen() == "small"
    with pytest.raises(NotPulled, match="localspec pull qwen3-8b"):
        chosen("qwen3-8b")


def test_without_a_terminal_nobody_is_asked_and_the_starter_answers(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    missing = pytest.raises(NotPulled, match="is not installed")
    with nullcontext() if choice.here(STARTER, ROOMY) else missing:
        assert chosen() == STARTER


def test_a_path_is_the_same_from_wherever_it_is_given(home, monkeypatch):
    (home / "model.gguf").touch()
    monkeypatch.chdir(home)
    assert command.known("model.gguf") == str(home / "model.gguf")
    assert command.known("qwen3-8b") == "qwen3-8b"
    assert command.known("") == ""
    assert session.last(command.known("model.gguf")) == (None, [])
