"""Files of our own that somebody damaged: they are found out again, and stop nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.apps.chat import session
from localspec.base.errors import UsageError
from localspec.base.system import kept_json
from localspec.running.models import store, trial_record
from localspec.running.models.engines import backend, engine_here
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
        found = kept_json.read(path)
    except ValueError as error:
        found = error
    assert isinstance(found, ValueError)


def test_a_damaged_record_of_trials_is_made_anew(damaged):
    model, engine = ModelFiles("llamacpp", engines.tiny("llama")), engine_here("llamacpp")
    footprint = backend("llamacpp").inspect(model.path)
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
