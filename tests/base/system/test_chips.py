"""What is published of Apple's chips."""

from __future__ import annotations

import pytest

from localspec.base.system.chips import PUBLISHED, generation, read_bytes_a_second

GB = 1 << 30


@pytest.mark.parametrize(
    ("device", "memory", "rate"),
    [
        ("Apple M1", 8, 68.25),
        ("Apple M2 Pro", 16, 200),
        ("Apple M3 Max", 36, 300),
        ("Apple M3 Max", 64, 400),
        ("Apple M4 Max", 36, 410),
        ("Apple M4 Max", 128, 546),
        ("Apple M3 Ultra", 512, 819),
        ("Apple M5 Max", 128, 614),
    ],
)
def test_a_chip_reads_as_fast_as_its_maker_publishes(device, memory, rate):
    assert read_bytes_a_second(device, memory * GB) == pytest.approx(rate * 1e9)


@pytest.mark.parametrize("device", ["Apple M9 Max", "Apple Paravirtual device", "NVIDIA M40", ""])
def test_of_another_device_nothing_is_known(device):
    assert read_bytes_a_second(device, 16 * GB) is None


def test_generations_are_read_off_names():
    names = ("Apple M1", "Apple M4 Max", "Apple M12 Ultra", "Apple A18 Pro", "host")
    assert [generation(name) for name in names] == [1, 4, 12, 0, 0]


def test_a_larger_chip_of_a_generation_reads_no_slower():
    for number in range(1, 6):
        kinds = [f"M{number}{kind}" for kind in ("", " Pro", " Max", " Ultra")]
        rates = [PUBLISHED[kind] for kind in kinds if kind in PUBLISHED]
        assert rates == sorted(rates)
        assert len(rates) >= 3
