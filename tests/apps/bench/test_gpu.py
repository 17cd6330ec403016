"""The benchmark of a card: its tables, tried on the CPU and on a device of the tests."""

from __future__ import annotations

import pytest

from benchmarks import gpu
from benchmarks.beside.dictated_copy import OPEN, PLAIN, READING
from benchmarks.gpu import ForwardRequest
from benchmarks.serving.process import apart
from localspec.interfaces.other_machines import WORKERS
from tests import engines
from tests.rpc_devices import GB, RpcDevice, workers


def test_forwards_of_all_sizes_are_timed_behind_texts_of_all_lengths():
    request = ForwardRequest("f16", (20, 90), (1, 4, 9))
    measured = gpu.forwards(engines.tiny("llama"), request)
    assert set(measured) == {20, 90}
    for times in measured.values():
        assert list(times) == [1, 4, 9]
        assert all(0 < seconds < 60 for seconds in times.values())


def test_a_table_has_ratios_to_one_token_and_the_error_of_the_curve():
    points = {1: 0.01, 3: 0.012, 4: 0.02, 17: 0.026, 64: 0.04}
    shown, times, curve = gpu.rows(100, points)
    assert shown.split() == ["100", "10.00", "12.00", "20.00", "26.00", "40.00"]
    assert times.split() == ["times", "1", "1.00", "1.20", "2.00", "2.60", "4.00"]
    # Four tokens lie on the line between three and 17; 64 on that line, drawn on.
    assert curve.split() == ["curve", "+0%", "+0%", "-35%", "+0%", "+82%"]


def test_a_dictated_reply_is_copied_at_each_depth():
    request = gpu.CopyRequest((30,), (8,), lines=12)
    [speeds] = gpu.copies(engines.tiny("llama"), request).values()
    assert set(speeds) == {PLAIN, 8, OPEN, READING}
    assert all(speed > 0 for speed in speeds.values())


@pytest.mark.long
def test_memory_is_measured_beside_its_plan_on_the_device_that_holds_it(monkeypatch):
    device = RpcDevice(2 * GB)
    monkeypatch.setenv(WORKERS, workers([device]))
    try:
        taken = apart(gpu.taken_memory, engines.tiny("llama"), None, gpu.WAYS["8 slots"])
    finally:
        device.kill()
    assert taken.planned > 1 << 20
    assert abs(taken.error) < gpu.MEMORY_GOAL
    assert taken.loaded <= taken.working


def test_memory_needs_a_card(monkeypatch):
    monkeypatch.setattr("sys.argv", ["bench", "gpu", str(engines.tiny("llama"))])
    with pytest.raises(SystemExit, match="no GPU whose memory"):
        gpu.main()
