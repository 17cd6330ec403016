"""The temperatures of models on disk, each by the model's weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localspec.base.errors import UsageError
from localspec.base.system import folders, kept_json
from localspec.base.system.fingerprint import fingerprint
from localspec.running.runtime.decisions.question import MOST_OPTIONS, Kind
from localspec.running.runtime.decisions.temperature import COLDEST, HOTTEST
from localspec.running.runtime.loaded_facts import LoadedFacts

Temperatures = Mapping[Kind, float]


def temperatures_of(facts: LoadedFacts) -> Temperatures:
    """Return the temperatures that are kept for a model, by kind of question."""
    path = record_path(facts) if temperatures_folder().exists() else None
    return (path and kept_json.load(path, checked_temperatures)) or {}


def keep(facts: LoadedFacts, temperatures: Temperatures) -> None:
    """Use these temperatures for a model from now on, in place of all that it had."""
    path = record_path(facts)
    if path is None or facts.target is None:
        raise UsageError("this model was not loaded from files, so no temperature is kept for it")
    if not temperatures:
        path.unlink(missing_ok=True)
        return
    record = {"of": facts.target.files.path.name, "temperatures": temperatures}
    if not kept_json.keep(path, record):
        raise UsageError(f"the temperatures cannot be kept in {path.parent}")


def drop_all() -> int:
    """Forget the temperatures of all models; return how many there were."""
    return kept_json.drop_all(temperatures_folder())


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


def checked_temperatures(record: Mapping[str, Any]) -> Temperatures:
    kept = record["temperatures"]
    listed = {kind: float(kept[kind]) for kind in MOST_OPTIONS if kind in kept}
    if not all(COLDEST <= temperature <= HOTTEST for temperature in listed.values()):
        raise ValueError(f"temperatures of {listed}")
    return listed
