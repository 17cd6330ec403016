"""The speed of memory, and how long a measurement of it counts."""

from __future__ import annotations

import json
import time

import pytest

from localspec.base.system import bandwidth, folders


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = folders.cache() / "bandwidth.json"
    place.parent.mkdir(parents=True)
    return place


def kept(place, rate, seconds_ago, **more):
    record = {"measured": time.time() - seconds_ago, "bytes_a_second": rate, **more}
    place.write_text(json.dumps(record))


def speed(measured=3e9, *, busy=False):
    return bandwidth.kept_speed(lambda: measured, lambda: busy)


def test_memory_is_copied_at_a_rate_that_memory_has():
    assert 1e8 < bandwidth.copied_bytes_a_second() < 1e13
    assert 1e8 < bandwidth.read_bytes_a_second(1) < 1e13


def test_a_measurement_counts_for_a_day_and_the_fastest_for_good(place):
    kept(place, 1.0, seconds_ago=60)
    assert speed() == (1.0, False)
    kept(place, 1.0, seconds_ago=25 * 3600)
    assert speed() == (3e9, False)
    assert speed(4e9) == (3e9, False)
    kept(place, 1e14, seconds_ago=25 * 3600)
    assert speed() == (1e14, False)


def test_what_was_measured_beside_other_programs_counts_until_the_machine_is_free(place):
    assert speed(1e9, busy=True) == (1e9, True)
    assert speed(2e9, busy=True) == (1e9, True)
    assert speed(3e9) == (3e9, False)
    assert speed(4e9) == (3e9, False)


def test_a_slower_measurement_says_nothing_of_one_that_was_kept(place):
    kept(place, 5e9, seconds_ago=25 * 3600)
    assert speed(1e9, busy=True) == (5e9, False)
    kept(place, 5e9, seconds_ago=60, busy=True)
    assert speed(1e9) == (5e9, False)


@pytest.mark.parametrize(
    "broken", ["", "[" * 100_000, "{}", "[1]", '{"bytes_a_second": "x"}', '{"bytes_a_second": -1}']
)
def test_what_is_broken_is_measured_again(place, broken):
    place.write_text(broken)
    assert speed() == (3e9, False)
