"""Where this machine's power comes from."""

from __future__ import annotations

import psutil


def is_on_battery() -> bool:
    sensor = getattr(psutil, "sensors_battery", None)  # some systems have none
    battery = sensor() if sensor else None
    return battery is not None and battery.power_plugged is False


def power_source() -> list[str]:
    """Name a battery among the circumstances of a measurement: processors run slower then."""
    return ["on battery"] if is_on_battery() else []
