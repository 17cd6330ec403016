"""Cores that are worth a thread each, on machines that are not at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec_llamacpp.coordinates import Processors, threads
from localspec_llamacpp.cores import fast_cores


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="ascii")


def test_cores_that_are_all_alike_are_not_told_apart(tmp_path):
    for at in range(4):
        write(tmp_path / f"system/cpu/cpu{at}/topology/core_cpus_list", f"{at // 2 * 2}-{at}")
    assert fast_cores(tmp_path) is None
    assert fast_cores(tmp_path / "nowhere") is None


def test_six_performance_cores_of_two_threads_are_six_beside_eight_efficiency_cores(tmp_path):
    write(tmp_path / "cpu_core/cpus", "0-11")
    for at in range(20):
        cores = f"{at // 2 * 2}-{at // 2 * 2 + 1}" if at < 12 else str(at)
        write(tmp_path / f"system/cpu/cpu{at}/topology/core_cpus_list", cores)
    assert fast_cores(tmp_path) == 6


@pytest.mark.parametrize(("capacities", "fast"), [((1024, 1024, 400, 400), 2), ((1024, 870), None)])
def test_arm_tells_the_capacity_of_its_cores(tmp_path, capacities, fast):
    for at, capacity in enumerate(capacities):
        write(tmp_path / f"system/cpu/cpu{at}/cpu_capacity", str(capacity))
    assert fast_cores(tmp_path) == fast


def test_the_usual_number_of_threads_stands_at_its_place():
    assert threads(Processors(1, 1)) == (None,)
    assert threads(Processors(2, 2)) == (1, None)
    assert threads(Processors(12, 24)) == (1, 2, 3, 4, 6, 8, None, 16, 24)
    assert threads(Processors(6, 20)) == (1, 2, 3, 4, None, 8, 12, 16, 20)
