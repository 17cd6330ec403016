"""Where this machine's power comes from."""

from __future__ import annotations

import psutil


def is_on_battery() -> bool:
    sensor = getattr(psutil, "sensors_battery", None)  # some systems have none
    battery = sensor() if sensor else None
    return battery is not None and battery.power_plugged is False
