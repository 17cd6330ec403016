"""The temperatures of models on disk, each by the model's weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localspec.base.errors import UsageError
from localspec.base.system import folders, kept_json
from localspec.base.system.fingerprint import fingerprint
from localspec.running.runtime.decisions.temperature import COLDEST, HOTTEST, Calibration
from localspec.running.runtime.loaded_facts import LoadedFacts


def temperature_of(facts: LoadedFacts) -> float:
    """Return the temperature that is kept for a model; 1: none is."""
    path = record_path(facts) if temperatures_folder().exists() else None
    return (path and kept_json.load(path, checked_temperature)) or 1.0


def keep(facts: LoadedFacts, calibration: Calibration) -> None:
    """Let a temperature be used for a model from now on."""
    path = record_path(facts)
    if path is None or facts.target is None:
        raise UsageError("this model was not loaded from files, so no temperature is kept for it")
    record = {
        "of": facts.target.files.path.name,
        "temperature": calibration.temperature,
        "labels": calibration.labels,
    }
    if not kept_json.keep(path, record):
        raise UsageError(f"the temperature cannot be kept in {path.parent}")


def drop_all() -> int:
    """Forget the temperatures of all models; return how many there were."""
    records = list(temperatures_folder().glob("*.json"))
    for record in records:
        record.unlink(missing_ok=True)
    return len(records)


def temperatures_folder() -> Path:
    return folders.data() / "temperatures"


def record_path(facts: LoadedFacts) -> Path | None:
    """Name the file of a model, whose adapters are part of it."""
    if facts.target is None:
        return None
    adapters = facts.plan.options.adapters if facts.plan else ()
    paths = [adapter.path for adapter in adapters if adapter.scale]
    scales = [f"{adapter.scale}" for adapter in adapters if adapter.scale]
    return temperatures_folder() / f"{fingerprint([facts.target.files.path, *paths], scales)}.json"


def checked_temperature(record: Mapping[str, Any]) -> float:
    temperature = float(record["temperature"])
    if not (math.isfinite(temperature) and COLDEST <= temperature <= HOTTEST):
        raise ValueError(f"a temperature of {temperature}")
    return temperature
