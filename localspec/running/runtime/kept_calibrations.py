"""Calibrations on disk: one small file for each pair, machine and way of loading."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from localspec.base.system import folders, kept_json
from localspec.base.system.fingerprint import fingerprint
from localspec.interfaces.backend import Model
from localspec.interfaces.costs import UNMEASURED, Attention, Costs
from localspec.running.models import engines
from localspec.running.runtime.calibration import ALL_SIZES, MIN_CONTEXT, Calibration, calibrate
from localspec.running.runtime.loaded_pair import LoadedPair
from localspec.running.runtime.phases import Phase, TellPhase, unheard

MUCH_FASTER = 0.85  # of the calibrated time of a plain round, or less

T = TypeVar("T")


def load_or_measure(
    loaded_pair: LoadedPair,
    tell: TellPhase = unheard,
    measure: Callable[[Model, Model | None], Calibration] = calibrate,
) -> Calibration:
    """Return the costs of a pair on this machine, kept or measured now."""
    key = key_of(loaded_pair)
    calibration = find(key)
    if calibration is None:
        if loaded_pair.pair.target.context < MIN_CONTEXT:  # no room: learn from the rounds
            return Calibration(UNMEASURED)
        tell(Phase("measuring", loaded_pair.resolved.target.files.path.name))
        pair = loaded_pair.pair
        calibration = measure_apart(lambda: measure(pair.target, pair.draft))
        if not calibration.steady:  # too busy a machine to tell: learn from the rounds themselves
            return calibration.in_plain_rounds()
        keep(key, calibration, pair_title(loaded_pair))
    return calibration


def reconsider(loaded_pair: LoadedPair, costs: Costs) -> None:
    """Forget a calibration of a busy machine, so that the next load measures: wide rounds too.

    Plain rounds then took much less than it says. A quiet machine is never faster than its best.
    """
    if costs.slowdown < MUCH_FASTER:
        with suppress(OSError):
            (folder() / f"{key_of(loaded_pair)}.json").unlink(missing_ok=True)


def pair_title(loaded_pair: LoadedPair) -> str:
    """Name the files of a pair."""
    return " with ".join(model.files.path.name for model in loaded_pair.models)


def measure_apart(measure: Callable[[], T]) -> T:
    """Measure in a thread that ends: OpenMP keeps threads for each that ever called it."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(measure).result()


def key_of(loaded_pair: LoadedPair) -> str:
    """Return the key of a pair's measurements: weights, options, sizes, device, versions."""
    # How much a slot could hold is no matter: it is measured with little in it.
    plan = loaded_pair.plan
    bare = [
        replace(options, context=None, head=None, projector=None, adapters=())
        for options in (plan.options, plan.drafting)
        if options
    ]
    machine = [line for model in loaded_pair.models for line in model.engine.circumstances]
    adapters = [adapter.path for adapter in plan.options.adapters if adapter.scale]
    return fingerprint(
        [*(model.files.path for model in loaded_pair.models), *adapters],
        [repr(bare), repr(ALL_SIZES), str(os.cpu_count()), *machine, *links(loaded_pair)],
    )


def links(loaded_pair: LoadedPair) -> list[str]:
    """List the workers in use and their trip times, by doublings: networks change."""
    if not any(pool.worker for pool in loaded_pair.plan.pools):
        return []
    worker_links = engines.links(loaded_pair.resolved.target.engine.name)
    return [f"{link.worker} {round(math.log2(link.trip_seconds))}" for link in worker_links]


def folder() -> Path:
    return folders.cache() / "calibrations"


def find(name: str) -> Calibration | None:
    """Read the calibration of a key; None if there is no usable one."""
    record = read(folder() / f"{name}.json")
    return record[1] if record else None


def newest(count: int) -> list[tuple[str, Calibration]]:
    """Read the newest calibrations, each with the names of its model files."""
    records = map(read, kept_json.newest_first(folder()))
    return list(islice((record for record in records if record and record[0]), count))


def read(file: Path) -> tuple[str, Calibration] | None:
    try:
        record = kept_json.read(file)
        return str(record.get("of", "")), Calibration(
            _points(record["target"]),
            {by: _points(points) for by, points in record["drafting"].items()},
            {by: _seconds(value, least=0.0) for by, value in record["reading"].items()},
            Attention(*(_seconds(value, least=0.0) for value in record["attention"])),
            int(record["held"]),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def keep(name: str, calibration: Calibration, of: str = "") -> None:
    kept_json.keep(folder() / f"{name}.json", {"of": of, **asdict(calibration)})


def _points(record: Mapping[str, object]) -> dict[int, float]:
    points = {int(size): _seconds(value, least=1e-7) for size, value in record.items()}
    if len(points) < 2 or min(points) < 1:
        raise ValueError("a curve needs two points")
    return points


def _seconds(value: object, least: float) -> float:
    if not isinstance(value, float | int) or not least <= value < 3600:
        raise ValueError(f"{value!r} seconds")
    return float(value)
