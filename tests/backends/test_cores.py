"""Cores that are worth a thread each, on machines that are not at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from localspec_llamacpp.coordinates import Processors, threads
from localspec_llamacpp.cores import fast_cores, physical_cores


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n", encoding="ascii")


def cores(devices: Path, siblings: str) -> set[int]:
    """Write the processors of each core, as 0,4 2-3, and list all of them."""
    usable = set()
    for core in siblings.split():
        processors = {int(number) for number in core.replace("-", ",").split(",")}
        for number in processors:
            write(devices / f"system/cpu/cpu{number}/topology/core_cpus_list", core)
        usable |= processors
    return usable


def test_cores_that_are_all_alike_have_a_thread_each(tmp_path):
    usable = cores(tmp_path, "0-1 2-3")
    assert fast_cores(tmp_path, usable) == 2
    assert fast_cores(tmp_path / "nowhere", usable) == 4


def hybrid(devices: Path) -> set[int]:
    """Write six performance cores of two threads, and eight efficiency cores."""
    write(devices / "cpu_core/cpus", "0-11")
    pairs = [f"{at}-{at + 1}" for at in range(0, 12, 2)]
    return cores(devices, " ".join([*pairs, *map(str, range(12, 20))]))


def test_six_performance_cores_of_two_threads_are_six_beside_eight_efficiency_cores(tmp_path):
    usable = hybrid(tmp_path)
    assert fast_cores(tmp_path, usable) == 6
    for at in range(20):  # as newer systems write it, where efficiency cores are nearly as fast
        write(tmp_path / f"system/cpu/cpu{at}/cpu_capacity", "1024" if at < 12 else "800")
    assert fast_cores(tmp_path, usable) == 6


def test_a_process_that_may_not_use_all_cores_counts_its_own(tmp_path):
    hybrid(tmp_path)
    assert fast_cores(tmp_path, {0, 1, 2, 3}) == 2
    assert fast_cores(tmp_path, {0, 2, 4}) == 3
    assert fast_cores(tmp_path, {10, 11, 12, 13}) == 1
    assert fast_cores(tmp_path, set(range(12, 20))) == 8


@pytest.mark.parametrize(
    ("capacities", "fast"),
    [
        ((1024, 1024, 400, 400), 2),
        ((1024, 870), 2),
        ((1024, 800, 800, 800, 325, 325, 325, 325), 4),  # one of the fast ones is faster yet
        ((1024,) * 4 + (485,) * 4, 4),  # Apple's, under Linux
    ],
)
def test_arm_tells_the_capacity_of_its_cores(tmp_path, capacities, fast):
    for at, capacity in enumerate(capacities):
        write(tmp_path / f"system/cpu/cpu{at}/cpu_capacity", str(capacity))
    assert fast_cores(tmp_path, set(range(len(capacities)))) == fast


def test_two_nodes_of_64_cores_are_128_and_one_that_numactl_chose_is_64(tmp_path):
    usable = cores(tmp_path, " ".join(f"{at},{at + 128}" for at in range(128)))
    assert fast_cores(tmp_path, usable) == 128
    assert fast_cores(tmp_path, {*range(64), *range(128, 192)}) == 64


@pytest.mark.skipif(sys.platform != "linux", reason="a process is bound to processors on Linux")
def test_a_process_that_is_bound_to_one_processor_has_one_thread():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert physical_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_the_usual_number_of_threads_stands_at_its_place():
    assert threads(Processors(1, 1)) == (None,)
    assert threads(Processors(2, 2)) == (1, None)
    assert threads(Processors(12, 24)) == (1, 2, 3, 4, 6, 8, None, 16, 24)
    assert threads(Processors(6, 20)) == (1, 2, 3, 4, None, 8, 12, 16, 20)
