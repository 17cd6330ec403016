"""Every test: no home but a temporary one, no network but loopback."""

from __future__ import annotations

import gc
import ipaddress
import os
import signal
import socket

# Before llama.cpp is loaded: several processes share the cores, and threads that spin take them
# from those that compute.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import psutil
import pytest
from hypothesis import HealthCheck, settings

from localspec.running.models.trial_child import Trial
from localspec.running.runtime.calibration import calibrate
from tests import arrangements

MEASURING_SECONDS = 0.1
# A busy machine needs more than the usual 0.2 s for an example now and then, and longer to make
# some. The examples are the same each time: --hypothesis-profile=default draws others.
settings.register_profile(
    "busy", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")


def pytest_addoption(parser):
    about = "where llama.cpp's models run: on the CPU, or on devices of tests/rpc_device.py"
    parser.addoption("--devices", choices=arrangements.ARRANGEMENTS, default="cpu", help=about)


def pytest_xdist_auto_num_workers(config):
    """One more than there are cores, as many tests wait; the long ones measure and compute."""
    quick = config.getoption("markexpr").startswith("not long")
    return (psutil.cpu_count(logical=False) or 1) + quick


def pytest_configure(config):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what is to go on
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        arrangements.start(config.getoption("--devices"))  # a set for each process of pytest


def pytest_collection_finish():
    """Leave thousands of tests out of whatever is collected as garbage from here on."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    arrangements.stop()


def pytest_collection_modifyitems(config, items):
    """Leave out models that others stand for."""
    chosen = arrangements.ARRANGEMENTS[config.getoption("--devices")].models
    if chosen:
        from tests.engines import ARCHITECTURES, HEADS

        others = {*ARCHITECTURES, *HEADS}.difference(chosen)
        left = [item for item in items if not others.intersection(models_of(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in left])
        items[:] = left


def models_of(item):
    """List the first words of a test's parameters, as `llama` of `llama q8_0 cache`."""
    called = getattr(item, "callspec", None)
    return [str(each).partition(" ")[0] for each in called.params.values()] if called else []


def pytest_ignore_collect(collection_path, config):
    """Tests of devices that are not the CPU need some."""
    alone = config.getoption("--devices") == "cpu"
    return True if alone and collection_path.name == "devices" else None


@pytest.fixture(scope="session", autouse=True)
def _a_home_of_its_own(tmp_path_factory):
    home = str(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HOME", "USERPROFILE", "LOCALAPPDATA"):
            patch.setenv(name, home)
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, home)
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("OLLAMA_MODELS", f"{home}/ollama")  # and not those of this machine
        yield


class TriedHere(Trial):
    """Lays a file of the tests out in this process, and takes it for granted that it runs."""

    def __init__(self, found):
        super().__init__(found.engine, found.path)

    def run(self, options, *, driven=False):
        pass


@pytest.fixture(scope="session", autouse=True)
def _no_trials():
    """Files of the tests need no process of their own to be tried in, but where that is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("localspec.running.models.trial.TrialProcess", TriedHere)
        yield


@pytest.fixture(scope="session", autouse=True)
def _short_measurements():
    """What forwards of a tiny model cost is measured for a moment when it is first loaded."""
    draft, _, *others = calibrate.__defaults__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate, "__defaults__", (draft, MEASURING_SECONDS, *others))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_network():
    connect = socket.socket.connect

    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            host = "127.0.0.1" if address[0] == "localhost" else address[0]
            assert ipaddress.ip_address(host).is_loopback, f"a test connects to {host}"
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield
