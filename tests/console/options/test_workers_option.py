"""`--workers` of commands, and `localspec worker` as far as it serves nothing."""

from __future__ import annotations

import pytest

from localspec.apps.command_line import run
from localspec.apps.commands.doctor import DoctorOptions
from localspec.base.system.addresses import is_loopback
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.interfaces.other_machines import WORKERS, Link
from localspec_llamacpp import remote
from tests import engines
from tests.rpc_devices import closed_port


@pytest.fixture(autouse=True)
def _no_workers(monkeypatch):
    monkeypatch.setenv(WORKERS, "")


@pytest.mark.parametrize("said", ["box", "box:", ":5", "box:0", "box:70000", "::1:50052", "a:1,"])
def test_what_is_no_address_is_refused(said, capsys):
    assert run(["plan", str(engines.tiny("llama")), "--workers", said]) == 2
    assert "is no worker: write HOST:PORT" in capsys.readouterr().err


def test_workers_are_told_to_engines_and_to_processes_that_try_models(monkeypatch):
    import os

    make_loading(LoadingOptions(workers="a:1,b:2"))
    assert os.environ[WORKERS] == "a:1,b:2"
    make_loading(LoadingOptions())
    assert os.environ[WORKERS] == "a:1,b:2"  # of the environment, where nothing else is said


def test_doctor_and_loading_have_the_same_option():
    both = [record.__dataclass_fields__["workers"] for record in (DoctorOptions, LoadingOptions)]
    assert both[0].metadata["envvar"] == both[1].metadata["envvar"] == WORKERS


def test_a_worker_that_does_not_answer_is_one_line_of_the_doctor(capsys, monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE_SECONDS", 0.1)
    with closed_port() as port:
        assert run(["doctor", "--workers", f"127.0.0.1:{port}"]) == 0
    out, err = capsys.readouterr()
    assert "a worker cannot be used" in out
    assert "start `localspec worker` there" in out
    assert not err


def test_a_link_is_told_in_figures():
    assert str(Link("a:1", 0.0021, 112e6)) == "a trip to a:1 takes 2.10 ms, 112 MB/s"


@pytest.mark.parametrize(
    ("host", "alone"),
    [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False), ("box.lan", False)],
)
def test_an_address_that_others_reach_is_warned_of(host, alone):
    assert is_loopback(host) is alone


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--device", "7"], "it must be auto, cpu or a GPU"),
        (["--host", "203.0.113.7"], "cannot be had"),
        (["--memory", "much"], "is no size"),
    ],
)
def test_a_worker_that_cannot_be_is_refused(options, why):
    import subprocess
    import sys

    command = [sys.executable, "-m", "localspec", "worker", "--port", "0", *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert why in result.stderr
    assert "Traceback" not in result.stderr
