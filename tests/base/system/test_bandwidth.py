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


def kept(place, rate, seconds_ago):
    place.write_text(json.dumps({"measured": time.time() - seconds_ago, "bytes_a_second": rate}))


def test_memory_is_copied_at_a_rate_that_memory_has():
    assert 1e8 < bandwidth.copied_bytes_a_second() < 1e13


def test_a_measurement_counts_for_a_day_and_the_fastest_for_good(place):
    kept(place, 1.0, seconds_ago=60)
    assert bandwidth.kept_bytes_a_second() == 1.0
    kept(place, 1.0, seconds_ago=25 * 3600)
    measured = bandwidth.kept_bytes_a_second()
    assert measured > 1e8
    assert bandwidth.kept_bytes_a_second() == measured
    kept(place, 1e14, seconds_ago=25 * 3600)
    assert bandwidth.kept_bytes_a_second() == 1e14


@pytest.mark.parametrize("broken", ["", "[" * 100_000, "{}", "[1]", '{"bytes_a_second": "x"}'])
def test_what_is_broken_is_measured_again(place, broken):
    place.write_text(broken)
    assert bandwidth.kept_bytes_a_second() > 1e8
