"""Joules, by the counters of machines that are not at hand."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from localspec.base.system.energy import (
    CoarseMeter,
    Counter,
    EnergyMeter,
    nvml_counters,
    rapl_counters,
)


def write_zone(folder: Path, zone: str, name: str, microjoules: int, most: int = 10_000_000):
    (folder / zone).mkdir(parents=True, exist_ok=True)
    values = {"name": name, "energy_uj": microjoules, "max_energy_range_uj": most}
    for file, value in values.items():
        (folder / zone / file).write_text(f"{value}\n", encoding="ascii")


def test_packages_and_their_memory_are_counted_once_and_across_the_end_of_a_counter(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 5_000_000)
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 1_000_000)
    write_zone(tmp_path, "intel-rapl:1", "psys", 1_000_000)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 9_000_000)
    meter = EnergyMeter(list(rapl_counters(tmp_path)))
    assert meter.names == ("package-0", "dram")
    assert meter.joules() == 0
    write_zone(tmp_path, "intel-rapl:0", "package-0", 500_000)  # 1.5 J later
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 1_250_000)
    assert meter.joules() == pytest.approx(1.75)
    meter.begin_anew()
    write_zone(tmp_path, "intel-rapl:0:1", "dram", 1_350_000)
    assert meter.joules() == pytest.approx(0.1)


def test_without_a_counter_that_may_be_read_there_are_no_joules(tmp_path):
    write_zone(tmp_path, "intel-rapl:0", "package-0", 1)
    (tmp_path / "intel-rapl:0/energy_uj").unlink()  # root, as tests may run, may read all
    assert list(rapl_counters(tmp_path)) == []
    assert EnergyMeter([]).joules() is None


def test_a_counter_that_is_gone_ends_the_count():
    values = iter([1.0, 2.0])

    def read():
        for value in values:
            return value
        raise OSError

    meter = EnergyMeter([Counter("GPU 0", read)])
    assert [meter.joules(), meter.joules()] == [1.0, None]


class Nvml:
    """NVIDIA's library with two cards, of which the second counts nothing."""

    def __init__(self):
        self.millijoules = 5000

    def nvmlInit_v2(self):
        return 0

    def nvmlDeviceGetCount_v2(self, count):
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint))[0] = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, at, card):
        ctypes.cast(card, ctypes.POINTER(ctypes.c_void_p))[0] = at + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, card, count):
        ctypes.cast(count, ctypes.POINTER(ctypes.c_ulonglong))[0] = self.millijoules
        return 0 if card.value == 1 else 3


def test_cards_that_count_are_read_by_nvidias_library():
    library = Nvml()
    meter = EnergyMeter(list(nvml_counters(lambda _: library)))
    assert meter.names == ("GPU 0",)
    library.millijoules += 2500
    assert meter.joules() == pytest.approx(2.5)

    def missing(name):
        raise OSError(name)

    assert list(nvml_counters(missing)) == []


def test_what_anybody_may_see_is_coarse_in_joules_and_in_time():
    now, taken = [0.0], [0.0]
    coarse = CoarseMeter(EnergyMeter([Counter("package-0", lambda: taken[0])]), lambda: now[0])
    readings = []
    for seconds in (0.5, 0.9, 1.2, 1.3):
        now[0], taken[0] = seconds, 7.4 * seconds
        readings.append(coarse.reading())
    shown = [(one["joules"], one["seconds"]) for one in readings]
    assert shown == [(0, 0), (0, 0), (9, 1.2), (9, 1.2)]
    assert CoarseMeter(EnergyMeter([])).reading() is None
