"""The doctor's findings, on machines that are drawn up in a folder."""

from __future__ import annotations

import json
import shutil
from collections import namedtuple
from dataclasses import replace

import pytest

from localspec.apps.command_line import run
from localspec.apps.commands import doctor
from localspec.apps.tuning import command as tune_command
from localspec.base.errors import BackendError
from localspec.base.system import free_memory
from localspec.interfaces.backend import Build
from localspec.interfaces.backend_spec import Builder, Finding
from localspec.running.models.engines import Engine
from localspec.running.models.locate import locate
from localspec.running.runtime import tuning
from localspec.running.runtime.loading import Loading
from localspec.running.runtime.tuning import Tuning
from tests import engines

GB = 1 << 30
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def _nothing_was_measured(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))


def steps(findings):
    return [finding.step for finding in findings if finding.step]


def test_it_tells_engines_devices_memory_and_disk(capsys):
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("localspec ", "llamacpp ", "memory ", "disk ", "cpu: ", " suggestion"):
        assert word in out


def test_little_memory_and_little_disk_come_with_a_step(tmp_path, monkeypatch):
    scarce = replace(free_memory.memory(), free_bytes=2 * GB)
    monkeypatch.setattr(free_memory, "memory", lambda: scarce)
    assert "choose a small model" in steps(doctor.memory())[0]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GB, 99 * GB, GB))
    assert "make room" in steps(doctor.disk(tmp_path / "not" / "there"))[0]


def test_an_engine_that_cannot_be_used_says_what_to_install(monkeypatch):
    def broken(engine):
        raise BackendError(f"{engine} needs parts: pip install parts")

    monkeypatch.setattr(Engine, "installed", broken)
    [finding] = doctor.engine("llamacpp")
    assert finding.step == "llamacpp needs parts: pip install parts"
    needless = Engine("mlx", replace(doctor.engines.engine("mlx").spec, preference=-1))
    monkeypatch.setattr(doctor.engines, "all_engines", lambda: [needless])
    assert list(doctor.engine("mlx")) == [Finding("mlx", "not installed, and not needed here")]


def test_a_python_that_runs_translated_is_told(monkeypatch):
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(doctor.platform, "version", lambda: "Darwin Kernel RELEASE_ARM64_T6000")
    assert "install one for Apple silicon" in steps(doctor.program())[0]


def test_the_build_is_that_of_the_engine():
    build = doctor.engines.engine("llamacpp").installed().build
    assert isinstance(build, Build)
    assert "CPU" in build.features
    assert build.version[0].isdigit()


def with_builder(monkeypatch, kinds=("auto", "cuda")):
    asked = []

    def build(kind, from_source):
        asked.append((kind, from_source))
        return "is built"

    builder = Builder(kinds, build, lambda _: ())
    engine = Engine("mlx", replace(doctor.engines.engine("mlx").spec, builder=builder))
    monkeypatch.setattr(doctor.engines, "all_engines", lambda: [engine])
    return asked


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], []),
        (["--fix"], [("", False)]),
        (["--fix", "--build"], [("", True)]),
        (["--rebuild", "cuda"], [("cuda", False)]),
        (["--rebuild", "auto", "--build"], [("auto", True)]),
    ],
)
def test_it_builds_what_it_is_asked_to(monkeypatch, capsys, options, asked):
    seen = with_builder(monkeypatch)
    assert run(["doctor", *options]) == 0
    assert seen == asked
    assert ("mlx        is built" in capsys.readouterr().out) == bool(asked)


@pytest.mark.parametrize("options", [["--rebuild", "rocket"], ["--build"]])
def test_a_kind_that_no_engine_has_is_refused_with_those_there_are(monkeypatch, capsys, options):
    assert with_builder(monkeypatch) == []
    assert run(["doctor", *options]) == 2
    assert ("auto, cuda" if "rocket" in options else "--fix") in capsys.readouterr().err


@pytest.fixture
def used(monkeypatch):
    """A model that was used lately, and one that is gone."""
    path = str(engines.tiny("llama"))
    monkeypatch.setattr(doctor.recent, "names", lambda: ["gone", path])
    return path


def test_a_model_is_named_until_its_fastest_options_were_searched(used):
    [finding] = doctor.untuned()
    assert (finding.subject, used in finding.state) == ("tune", True)
    assert "gone" not in finding.state
    target = locate(used)
    circumstances = tuning.circumstances(target, Loading())
    tuning.keep(target, Tuning({"threads": 1}, 1.5, "2026-01-02", ("another version",)))
    assert list(doctor.untuned())
    tuning.keep(target, Tuning({}, 1.0, "2026-01-02", circumstances))  # nothing was faster
    assert not list(doctor.untuned())


def test_a_model_whose_name_is_no_text_is_named_all_the_same(used, tmp_path, monkeypatch, capsys):
    odd = f"{tmp_path}/odd\udcff.gguf"
    shutil.copyfile(used, odd)
    monkeypatch.setattr(doctor.recent, "names", lambda: [odd])
    assert run(["doctor"]) == 0
    assert "odd?.gguf" in capsys.readouterr().out


def test_it_tunes_the_model_that_was_used_last(used, monkeypatch, capsys):
    monkeypatch.setattr(tune_command, "search", lambda examined, *_, **__: print(examined[0].files))
    monkeypatch.setattr(tune_command, "measure_costs", lambda *_: None)
    assert run(["doctor", "--tune"]) == 0
    assert used in capsys.readouterr().out


def test_findings_come_as_json(capsys):
    assert run(["doctor", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)["findings"]
    assert {"localspec", "memory", "disk"} <= {each["subject"] for each in record}
    assert all(each.keys() == {"subject", "state", "step"} for each in record)
