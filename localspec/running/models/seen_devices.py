"""The devices of engines, as last reported, for commands that load nothing.

To ask an engine, it has to be imported: 0.2 s of processor time for llama.cpp, 1.2 s for MLX on
Linux.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from localspec.base.system import folders, kept_json
from localspec.interfaces.backend import Device
from localspec.interfaces.other_machines import WORKERS
from localspec.running.models.engines import Engine

KEPT_SECONDS = 86_400.0  # after which an engine is asked again: a driver may have been installed


def folder() -> Path:
    return folders.cache() / "devices"


def seen_devices(engine: Engine) -> Sequence[Device]:
    """Return the devices of an engine, as if nothing were on them; ask it at most once a day."""
    path = folder() / f"{engine}.json"
    circumstances = [*engine.versions(), os.environ.get(WORKERS, "")]

    def recorded(record: dict[str, Any]) -> list[Device] | None:
        fresh = time.time() - path.stat().st_mtime <= KEPT_SECONDS
        same = fresh and record["circumstances"] == circumstances
        return [Device(**fields) for fields in record["devices"]] if same else None

    devices = kept_json.load(path, recorded)
    if devices is not None:
        return devices
    seen = engine.backend().probe()
    devices = [replace(device, free_bytes=device.total_bytes) for device in seen]
    record = {"circumstances": circumstances, "devices": [asdict(device) for device in devices]}
    kept_json.keep(path, record)
    return devices


def forget_devices() -> None:
    """Have all engines asked anew."""
    for path in folder().glob("*.json"):
        with suppress(OSError):
            path.unlink()
