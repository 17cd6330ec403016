"""A driver that dies at some width takes no process along but that of its trial."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from localspec.interfaces.other_machines import WORKERS
from tests import engines
from tests.rpc_devices import GB, RpcDevice

LOAD = """
import json, sys
import localspec
from localspec.running.memory.planner import Limits
options = localspec.Options(context=1024, **json.loads(sys.argv[2]))
try:
    loading = localspec.Loading(options, limits=Limits(sys.argv[3]))
    with localspec.load(sys.argv[1], None, loading) as model:
        result = model.generate("the code " * 40, localspec.Settings(max_tokens=8, ignore_end=True))
        plan = model.facts.plan
        print(json.dumps({
            "said": result.tokens,
            "options": [plan.options.flash_attention, plan.options.batch, plan.options.gpu_layers],
            "conceded": [[each.what, each.why] for each in plan.concessions],
        }))
except localspec.LocalSpecError as error:
    print(json.dumps({"error": str(error)}))
"""


@contextmanager
def bad_driver(width: int, **wishes):
    device = RpcDevice(4 * GB, width=width, **wishes)
    try:
        yield device
    finally:
        device.kill()


def loaded(device: RpcDevice, where: str = "auto", **options):
    """Load a tiny model in a process of its own, which must live."""
    result = subprocess.run(
        [sys.executable, "-c", LOAD, engines.tiny("llama"), json.dumps(options), where],
        env=os.environ | {WORKERS: device.endpoint},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_flash_attention_is_left_off_where_a_driver_dies_of_it():
    with bad_driver(8) as device:
        model = loaded(device)
        assert model["options"] == [False, 512, None]
        [[what, why]] = model["conceded"]
        assert what == "without flash attention"
        assert "SIGABRT" in why
        port = int(device.endpoint.partition(":")[2])
    with bad_driver(1 << 20, port=port) as healed:  # nothing tells that it is another driver
        assert loaded(healed) == model


def test_narrower_batches_are_run_where_flash_attention_was_asked_for():
    with bad_driver(40) as device:
        model = loaded(device, flash_attention=True)
        assert model["options"] == [True, 32, None]
        assert model["conceded"][0][0] == "in batches of at most 32 tokens"


def test_the_cpu_takes_over_unless_a_gpu_was_asked_for():
    with bad_driver(1) as device:
        model = loaded(device, flash_attention=True)
        assert model["options"] == [None, 512, 0]
        assert model["conceded"][0][0] == "on the CPU"
        assert "SIGABRT" in loaded(device, "0", flash_attention=True)["error"]
