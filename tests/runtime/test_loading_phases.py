"""The phases of loading, which callers may hear of."""

from __future__ import annotations

import shutil
import signal
import sys

import pytest

import localspec
from localspec.errors import LocalSpecError
from localspec_llamacpp.bindings.weights import Reading
from tests import engines

LOADING = localspec.Loading(localspec.Options(context=256, threads=1))


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return shutil.copy(engines.tiny("llama"), tmp_path / "one.gguf")


def phases(path):
    heard = []
    with localspec.load(path, loading=LOADING, tell=heard.append):
        return heard


def test_a_file_is_tried_read_and_measured_and_tried_only_once(path):
    first = phases(path)
    assert list(dict.fromkeys(phase.name for phase in first)) == ["trying", "reading", "measuring"]
    assert {phase.file for phase in first} == {"one.gguf"}
    shares = [phase.share for phase in first if phase.share is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert "trying" not in {phase.name for phase in phases(path)}


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
