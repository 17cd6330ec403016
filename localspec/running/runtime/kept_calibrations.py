"""Calibrations on disk: one small file for each pair, machine and way of computing.

One that was measured beside other programs is used until the processors are free, and then
measured again.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from localspec.base.system import folders, kept_json, processors
from localspec.base.system.fingerprint import fingerprint
from localspec.base.system.power import power_source
from localspec.interfaces.backend import Model, Options
from localspec.interfaces.costs import UNMEASURED, Attention, Costs
from localspec.running.runtime.calibration import (
    ALL_SIZES,
    MIN_CONTEXT,
    Calibration,
    calibrate,
    narrow_sizes,
)
from localspec.running.runtime.loaded_pair import LoadedPair
from localspec.running.runtime.phases import Phase, TellPhase, unheard

MUCH_FASTER = 0.85  # of the calibrated time of a plain round, or less

T = TypeVar("T")


def load_or_measure(
    loaded_pair: LoadedPair,
    tell: TellPhase = unheard,
    measure: Callable[[Model, Model | None], Calibration] = calibrate,
    is_busy: Callable[[], bool] = processors.is_busy,
) -> Calibration:
    """Return the costs of a pair on this machine, kept or measured now."""
    key, target = key_of(loaded_pair), loaded_pair.pair.target
    calibration = find(key)
    if calibration and serves(calibration, target) and not (calibration.busy and not is_busy()):
        return calibration
    if target.context < MIN_CONTEXT:  # no room: learn from the rounds
        return calibration or Calibration(UNMEASURED)
    tell(Phase("measuring", loaded_pair.resolved.target.files.path.name))
    calibration = watched(lambda: measure_apart(lambda: measure(target, loaded_pair.pair.draft)))
    keep(key, calibration, pair_title(loaded_pair))
    return calibration


def serves(calibration: Calibration, target: Model) -> bool:
    """Whether it has all sizes of short drafts that a model verifies; a line goes on from there."""
    return calibration.busy or set(narrow_sizes(target)) <= set(calibration.target)


def watched(
    measure: Callable[[], Calibration], rivals: Callable[[], float] | None = None
) -> Calibration:
    """Measure, and note whether that was beside other programs."""
    rivals = rivals or processors.RivalWatch().share
    calibration = measure()
    if not calibration.steady:  # too busy a machine to tell: learn from the rounds themselves
        return replace(calibration.in_plain_rounds(), busy=True)
    return replace(calibration, busy=rivals() > processors.CROWDED)


def reconsider(loaded_pair: LoadedPair, costs: Costs) -> None:
    """Forget a calibration of a busy machine, so that the next load measures: wide rounds too.

    Plain rounds then took much less than it says. A quiet machine is never faster than its best.
    One that is known to be of a busy machine is measured again anyway.
    """
    kept = find(key_of(loaded_pair))
    if kept and not kept.busy and costs.slowdown < MUCH_FASTER:
        with suppress(OSError):
            (folder() / f"{key_of(loaded_pair)}.json").unlink(missing_ok=True)


def pair_title(loaded_pair: LoadedPair) -> str:
    """Name the files of a pair."""
    return " with ".join(model.files.path.name for model in loaded_pair.models)


def measure_apart(measure: Callable[[], T]) -> T:
    """Measure in a thread that ends: OpenMP keeps threads for each that ever called it.

    The end of the process does not wait for it: Ctrl-C may come while it begins, and who started it
    does not know of it yet.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(measure())
        except BaseException as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="measuring", daemon=True)
    thread.start()
    try:
        return future.result()
    finally:
        thread.join()


def key_of(loaded_pair: LoadedPair) -> str:
    """Return the key of a pair's measurements: weights, sizes, device, versions, and options.

    How many slots there are and how much one could hold is no matter: one is measured, with little
    in it.
    """
    plan = loaded_pair.plan
    bare = [computing(options) for options in (plan.options, plan.drafting) if options]
    machine = [line for model in loaded_pair.models for line in model.engine.circumstances]
    adapters = [adapter.path for adapter in plan.options.adapters if adapter.scale]
    return fingerprint(
        [*(model.files.path for model in loaded_pair.models), *adapters],
        [
            *(repr(bare), repr(ALL_SIZES), str(os.cpu_count())),
            *(*machine, *links(loaded_pair), *power_source()),
        ],
    )


def computing(options: Options) -> Options:
    """Keep of options those by which a token takes longer or shorter."""
    usual = Options()
    return replace(
        options,
        slots=usual.slots,
        shared=None,
        context=None,
        batch=usual.batch,
        tentative=usual.tentative,
        head=None,
        projector=None,
        adapters=(),
        draft=usual.draft,
        verbose=False,
    )


def links(loaded_pair: LoadedPair) -> list[str]:
    """List the workers in use and their trip times, by doublings: networks change."""
    if not any(pool.worker for pool in loaded_pair.plan.pools):
        return []
    worker_links = loaded_pair.resolved.target.files.engine.links()
    return [f"{link.worker} {round(math.log2(link.trip_seconds))}" for link in worker_links]


def folder() -> Path:
    return folders.cache() / "calibrations"


def find(name: str) -> Calibration | None:
    """Read the calibration of a key; None if there is no usable one."""
    record = kept_json.load(folder() / f"{name}.json", parse)
    return record[1] if record else None


def newest(count: int) -> list[tuple[str, Calibration]]:
    """Read the newest calibrations, each with the names of its model files."""
    return kept_json.newest(folder(), lambda record: parse(record) if record["of"] else None, count)


def parse(record: Mapping[str, Any]) -> tuple[str, Calibration]:
    return str(record.get("of", "")), Calibration(
        _points(record["target"]),
        {by: _points(points) for by, points in record["drafting"].items()},
        {by: _seconds(value, least=0.0) for by, value in record["reading"].items()},
        Attention(*(_seconds(value, least=0.0) for value in record["attention"])),
        int(record["held"]),
        record.get("busy") is True,
    )


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
