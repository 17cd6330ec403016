"""How a model loads fastest here, as `localspec tune` measured it, where the user leaves it open.

It holds until the file, the engine's version, the devices or what decides exactness change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from localspec.base.errors import LocalSpecError
from localspec.base.system import folders, kept_json
from localspec.base.system.fingerprint import fingerprint
from localspec.base.system.power import power_source
from localspec.interfaces.backend import Options
from localspec.interfaces.coordinate import OptionValue
from localspec.running.memory.planner import Limits
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.loading_options import Loading

PLACES = ("gpu_layers", "split", "split_mode", "cpu_moe")  # where layers go: chosen as a whole


@dataclass(frozen=True, slots=True)
class Tuning:
    """The options of an engine that were fastest, and how many times as fast as the usual ones."""

    changes: Mapping[str, OptionValue]
    gain: float
    day: str
    circumstances: tuple[str, ...]

    @classmethod
    def of_today(
        cls, changes: Mapping[str, OptionValue], gain: float, circumstances: tuple[str, ...]
    ) -> Tuning:
        return cls(changes, gain, f"{date.today():%Y-%m-%d}", circumstances)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Tuning:
        """Read what `asdict` made; raise a KeyError, TypeError or ValueError if it is none."""
        changes, circumstances = dict(record["changes"]), tuple(map(str, record["circumstances"]))
        try:
            replace(Options(), **changes)
        except LocalSpecError as error:
            raise ValueError(str(error)) from error
        return cls(changes, float(record["gain"]), str(record["day"]), circumstances)

    def __str__(self) -> str:
        return (
            f"loaded as tuned on {self.day}: {as_typed(self.changes)}; {self.gain:.2f} times the "
            "usual speed; options to choose, `localspec tune --forget` to undo"
        )

    def open_changes(self, loading: Loading) -> dict[str, OptionValue]:
        """Return the changes of options that the user leaves open."""
        options, usual = loading.options, Options()
        changed = {name for name in self.changes if getattr(options, name) == getattr(usual, name)}
        places = any(getattr(options, name) != getattr(usual, name) for name in PLACES)
        if places or loading.limits != Limits(text_only=loading.limits.text_only):
            changed -= {*PLACES}
        return {name: value for name, value in self.changes.items() if name in changed}

    def apply(self, loading: Loading) -> Loading:
        """Return how to load with what was fastest, where the user leaves it open."""
        options = loading.options
        changes = self.open_changes(loading)
        with suppress(LocalSpecError):  # one that an option of the user's excludes
            options = replace(options, **changes)
        return replace(loading, options=options)


def as_typed(changes: Mapping[str, OptionValue]) -> str:
    """Write options as they would be typed."""
    words = []
    for name, value in changes.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True and name != "flash_attention":
            words.append(flag)
        elif value is None or value is False or value is True:
            words.append(f"{flag} {({None: 'auto', False: 'off', True: 'on'})[value]}")
        else:
            words.append(f"{flag} {value}")
    return " ".join(words) or "as usual"


def find_tuning(target: ModelFiles, loading: Loading) -> Tuning | None:
    """Read what was fastest for a model, if that holds here and now, and changes something."""
    tuning = _valid(target, loading)
    return tuning if tuning and tuning.apply(loading) != loading else None


def is_tuned(target: ModelFiles) -> bool:
    """Whether it is known here and now what is fastest for a model, be it the usual way."""
    return _valid(target, Loading()) is not None


def _valid(target: ModelFiles, loading: Loading) -> Tuning | None:
    tuning = kept_json.load(_record_path(target.path), Tuning.of_record)
    return tuning if tuning and tuning.circumstances == circumstances(target, loading) else None


def keep(target: ModelFiles, tuning: Tuning) -> bool:
    """Let a model be loaded so from now on; False if that cannot be kept."""
    return kept_json.keep(_record_path(target.path), asdict(tuning))


def forget(target: ModelFiles) -> bool:
    """Let a model be loaded as usual; return whether it was not."""
    path = _record_path(target.path)
    existed = path.exists()
    path.unlink(missing_ok=True)
    return existed


def circumstances(target: ModelFiles, loading: Loading) -> tuple[str, ...]:
    """List what decides which options are fastest, and what may not change with them."""
    options = loading.options
    return (
        *target.engine.installed().circumstances,
        str(os.cpu_count()),
        *power_source(),
        f"{loading.limits.device} {options.products} {options.bit_exact}",
    )


def _record_path(target: Path) -> Path:
    return folders.cache() / "tunings" / f"{fingerprint([target], [])}.json"
