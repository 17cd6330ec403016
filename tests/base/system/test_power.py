from __future__ import annotations

import psutil
import pytest

from localspec.base.system.power import is_on_battery


@pytest.mark.parametrize(("plugged", "expected"), [(False, True), (True, False), (None, False)])
def test_a_battery_counts_where_it_is_known_to_be_in_use(monkeypatch, plugged, expected):
    battery = type("Battery", (), {"power_plugged": plugged})
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert is_on_battery() is expected


def test_a_machine_without_a_battery_is_on_none(monkeypatch):
    monkeypatch.setattr(psutil, "sensors_battery", lambda: None, raising=False)
    assert not is_on_battery()
