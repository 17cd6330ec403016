"""Files of our own that somebody damaged: they are found out again, and stop nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from localspec.apps.chat import session
from localspec.apps.command_line import run
from localspec.base.errors import UsageError
from localspec.base.system import folders, kept_json
from localspec.running.models import store, trial_record
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime import kept_calibrations
from tests import engines

DAMAGED = {
    "nested": "[" * 200_000,
    "objects": '{"a":' * 200_000,
    "empty": "",
    "a list": "[]",
    "bytes": "\udcff",
}


@pytest.fixture(params=DAMAGED.values(), ids=DAMAGED)
def damaged(request, tmp_path, monkeypatch):
    """Write the damage to a path; the folders of this user are temporary."""
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))

    def write(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(request.param, encoding="utf-8", errors="surrogateescape")
        return path

    return write


def test_what_is_no_object_is_a_value_error(damaged, tmp_path):
    path = damaged(tmp_path / "kept.json")
    try:
        contents = kept_json.read(path)
    except ValueError as error:
        contents = error
    assert isinstance(contents, ValueError)


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Return a function that keeps something in the cache while the system refuses to write."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept_json._warn.cache_clear()

    def keep(name, reason):
        def write(*_):
            raise OSError(reason, os.strerror(reason))

        monkeypatch.setattr(kept_json, "write", write)
        return kept_json.keep(folders.cache() / name, {})

    yield keep
    kept_json._warn.cache_clear()


def test_what_cannot_be_kept_is_told_once_with_the_reason(refused, caplog):
    assert not refused("trials/a.json", errno.ENOSPC)
    assert not refused("calibrations/b.json", errno.ENOSPC)
    assert not refused("bandwidth.json", errno.EROFS)
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot keep measurements in {folders.cache()}: no space left on device",
        f"cannot keep measurements in {folders.cache()}: read-only file system",
    ]


def test_a_load_that_can_keep_nothing_says_so_in_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").write_text("a file where the folder should be")
    kept_json._warn.cache_clear()
    options = ["--threads", "1", "--context", "128", "--raw", "--max-tokens", "1"]
    assert run(["generate", str(engines.tiny("llama")), "hi", *options]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "cannot keep" in line]
    folder = tmp_path / "cache" / "localspec"
    assert lines == [f"localspec: cannot keep measurements in {folder}: not a directory"]
    kept_json._warn.cache_clear()


def test_a_damaged_record_of_trials_is_made_anew(damaged):
    model = ModelFiles(engines.GGUF_ENGINE, engines.tiny("llama"))
    engine = model.engine.installed()
    footprint = model.engine.backend().inspect(model.path)
    trial_record.Record(model, engine).keep_footprint(footprint)
    [place] = trial_record.folder().glob("*.json")
    damaged(place)
    record = trial_record.Record(model, engine)
    assert record.footprint() is None
    record.keep_footprint(footprint)
    assert trial_record.Record(model, engine).footprint() == footprint


def test_damaged_costs_are_measured_again(damaged):
    damaged(kept_calibrations.folder() / "costs.json")
    assert kept_calibrations.find("costs") is None
    assert kept_calibrations.newest(9) == []


def test_a_damaged_record_of_a_pulled_model_is_passed_over(damaged):
    damaged(store.folder() / "some@@llamacpp.json")
    assert store.everything() == []


def test_a_damaged_conversation_is_named(damaged, tmp_path):
    path = damaged(tmp_path / "chat.json")
    with pytest.raises(UsageError, match=r"chat\.json is no conversation that was saved here"):
        session.load(path)
