"""The phases of loading, which callers may hear of."""

from __future__ import annotations

import shutil
import signal
import sys
from dataclasses import replace

import pytest

import localspec
from localspec.base.errors import LocalSpecError
from localspec.running.memory.planner import Limits
from localspec.running.runtime import kept_calibrations
from localspec.running.runtime.loading import Loading
from localspec_llamacpp.bindings.weights import Reading
from tests import engines

LOADING = Loading(localspec.Options(context=256, threads=1))

ALWAYS_BUSY = (*kept_calibrations.load_or_measure.__defaults__[:-1], lambda: True)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return shutil.copy(engines.tiny("llama"), tmp_path / "one.gguf")


def phases(path, loading=LOADING):
    heard = []
    with localspec.load(path, loading=loading, tell=heard.append):
        return heard


def names(heard):
    return list(dict.fromkeys(phase.name for phase in heard))


@pytest.fixture
def busy(monkeypatch):
    """Let what was measured beside other programs count: this machine may become free."""
    monkeypatch.setattr(kept_calibrations.load_or_measure, "__defaults__", ALWAYS_BUSY)


def test_a_file_is_tried_read_and_measured_and_tried_only_once(path):
    first = phases(path)
    assert names(first) == ["planning", "trying", "reading", "measuring"]
    assert {phase.file for phase in first} == {"one.gguf"}
    shares = [phase.share for phase in first if phase.share is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert not {"planning", "trying"} & set(names(phases(path)))


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({"context": 512}, {}),
        ({"slots": 2}, {}),
        ({"slots": 4, "context": 128}, {}),
        ({}, {"budget": 1 << 28}),
    ],
)
def test_another_size_is_planned_and_neither_tried_nor_measured(options, limits, path, busy):
    phases(path)
    other = replace(LOADING.options, **options)
    heard = phases(path, Loading(other, limits=Limits(**limits)))
    assert names(heard)[-1] == "reading"
    assert set(names(heard)) <= {"planning", "reading"}


def test_what_cannot_fit_is_told_before_anything_is_tried(path):
    heard = []
    with pytest.raises(LocalSpecError, match="more than the budget leaves"):
        localspec.load(path, loading=Loading(limits=Limits(budget=1 << 17)), tell=heard.append)
    assert names(heard) == ["planning"]


def test_nothing_is_printed_for_who_loads_from_python(path, capfd):
    localspec.load(path, loading=LOADING).close()
    assert capfd.readouterr() == ("", "")


def test_who_hears_of_the_reading_may_end_it(path):
    def stop(phase):
        if phase.share:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        localspec.load(path, loading=LOADING, tell=stop)
    localspec.load(path, loading=LOADING).close()


def test_an_interrupt_as_llama_cpp_calls_back_ends_the_reading_and_is_no_failure(path, capfd):
    """It came before the first line of the callback, was printed and lost, and reading went on."""

    def interrupt(frame, event, _):
        if event == "call" and frame.f_code is Reading._hear.__code__:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            localspec.load(path, loading=LOADING)
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGINT, usual)
    assert capfd.readouterr() == ("", "")
    localspec.load(path, loading=LOADING).close()


def test_a_failure_of_who_hears_does_not_pass_through_the_engine():
    def fail(_):
        raise LocalSpecError("no")

    reading = Reading(fail, None)
    assert not reading.callback(0.5, None)
    assert str(reading.failure) == "no"
