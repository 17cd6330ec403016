"""How a pair did with these versions, and with the last good ones: one small file for each pair.

A fall is said at load and by `localspec doctor` where it is more than the noise of both
measurements.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from localspec.base.system import folders, kept_json, processors
from localspec.base.system.fingerprint import changed_versions, fingerprint
from localspec.base.system.machine_load import MachineChange
from localspec.interfaces.backend import METAL_PRODUCTS
from localspec.running.runtime.kept_calibrations import measure_apart, pair_title
from localspec.running.runtime.loaded_pair import LoadedPair
from localspec.running.runtime.pair_speed import FORM, MIN_CONTEXT, PairSpeed, measure
from localspec.running.runtime.phases import Phase, TellPhase, unheard

MIN_WEIGHT_BYTES = 32 << 20  # with smaller models the program around them takes as long
MAX_TRIES = 3  # measurements with the same versions, of which the fastest counts
STANDARD_ERRORS = 4.0  # that chance does not reach, of a handful of measurements
TURNS = 2.5  # times the root of the guesses that turned, which chance does not reach
LEAST_ERROR = 0.015  # of a speed from one load to the next


@dataclass(frozen=True, slots=True)
class Era:
    """A time with the same versions: how often a pair was measured in it, and the best result."""

    versions: tuple[str, ...]
    tries: int = 0
    speed: PairSpeed | None = None

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Era:
        """Read what `asdict` made; raise a KeyError, TypeError or ValueError if it is none."""
        speed = record["speed"] and PairSpeed.of_record(record["speed"])
        return cls(tuple(map(str, record["versions"])), int(record["tries"]), speed)


@dataclass(frozen=True, slots=True)
class History:
    """The names of a pair's files, the last good time before, and the time now."""

    of: str
    on_host: bool
    now: Era
    before: Era | None = None

    def with_versions(self, versions: tuple[str, ...]) -> History:
        """Begin a new time if versions changed; one that fell is no measure for the next."""
        if versions == self.now.versions:
            return self
        if self.before and versions == self.before.versions:
            return replace(self, now=self.before, before=None)
        good = self.now.speed is not None and not any(self.falls(tries=1))
        return replace(self, now=Era(versions), before=self.now if good else self.before)

    @property
    def unsettled(self) -> bool:
        """Whether to measure: not yet done, not quietly, or with a fall that may be bad luck."""
        speed = self.now.speed
        unsure = speed is None or not speed.plain or any(self.falls(tries=1))
        return unsure and self.now.tries < MAX_TRIES

    def with_speed(self, speed: PairSpeed) -> History:
        """Keep the faster one of this measurement and the one before it."""
        better = max(filter(None, (self.now.speed, speed)), key=self._rank)
        return replace(self, now=replace(self.now, speed=better))

    def _rank(self, speed: PairSpeed) -> float:
        if not speed.plain:
            return -math.inf
        memory = math.log(speed.load.memory_speed) if self.on_host else 0.0
        return -fmean(map(math.log, speed.plain)) - memory

    def falls(self, tries: int = 2) -> Iterator[str]:
        """Yield what fell since the time before; speeds only after so many measurements."""
        if not (self.before and self.before.speed and self.now.speed):
            return
        before, now = self.before.speed, self.now.speed
        yield from _fall_of_acceptance(before.agreed, now.agreed)
        if self.now.tries < tries or not (before.plain and now.plain):
            return
        machine = MachineChange(0.0, 0.0)
        if self.on_host:
            machine = MachineChange.between(before.load, now.load)
        yield from _fall_of_speed("decodes plainly", before.plain, now.plain, machine)
        yield from _fall_of_speed("checks drafts", before.checking, now.checking, machine)

    def sentence(self) -> str:
        """Say what fell, and since which versions; "" if nothing did."""
        falls = list(self.falls())
        if not falls or not self.before:
            return ""
        changes = changed_versions(self.before.versions, self.now.versions)
        return f"since {changes}, {self.of} {' and '.join(falls)}"


def _fall_of_acceptance(before: str, now: str) -> Iterator[str]:
    """Compare position by position; near-ties turn now one way, now the other."""
    common = min(len(before), len(now))
    moves = [int(new) - int(old) for old, new in zip(before, now, strict=False)]
    moved, turned = sum(moves), sum(map(abs, moves))
    noise = TURNS * math.sqrt(turned)
    if moved < -noise:
        old, new = (run[:common].count("1") / common for run in (before, now))
        was = f"{old:.0%} before, ± {noise / common:.0%}"
        yield f"accepts {new:.0%} of the drafts of a test text ({was})"


def _fall_of_speed(
    does: str, before: Sequence[float], now: Sequence[float], machine: MachineChange
) -> Iterator[str]:
    old, new = ([math.log(seconds) for seconds in run] for run in (before, now))
    errors = [stdev(run) / math.sqrt(len(run)) for run in (old, new)]
    noise = math.hypot(STANDARD_ERRORS * math.hypot(*errors, LEAST_ERROR), machine.error)
    change = fmean(old) - fmean(new) - machine.faster
    if change < -noise:
        yield f"{does} at {math.exp(change):.2f} ± {math.expm1(noise):.2f} of the speed"


def check_for_slowdown(loaded_pair: LoadedPair, tell: TellPhase = unheard) -> str:
    """Measure a pair while its versions are new or in doubt; return what fell since good ones."""
    if not _is_measurable(loaded_pair):
        return ""

    def measure_now() -> PairSpeed:
        tell(Phase("measuring", loaded_pair.resolved.target.files.path.name))
        return measure_apart(partial(measure, loaded_pair.pair))

    now = Era(versions_of(loaded_pair))
    history = History(pair_title(loaded_pair), loaded_pair.plan.on_host, now)
    file = folder() / f"{key_of(loaded_pair)}.json"
    return update(file, history, measure_now, processors.is_busy)


def update(
    path: Path,
    fresh: History,
    measure: Callable[[], PairSpeed],
    is_busy: Callable[[], bool] = lambda: False,
) -> str:
    """Continue the history of a pair in its file; return what fell.

    Once it was measured, it is measured again only while the machine is not busy.
    """
    stored = kept_json.load(path, parse_history)
    history = (stored or fresh).with_versions(fresh.now.versions)
    if history.unsettled and not (history.now.tries and is_busy()):
        history = replace(history, now=replace(history.now, tries=history.now.tries + 1))
        if not kept_json.keep(path, asdict(history)):  # else each load would measure, for nothing
            return ""
        history = history.with_speed(measure())
    if history != stored:
        kept_json.keep(path, asdict(history))
    return history.sentence()


def _is_measurable(loaded_pair: LoadedPair) -> bool:
    """Whether the models decide the speed, rather than the program around them or a network."""
    pair = loaded_pair.pair
    context = min(model.context for model in (pair.target, pair.draft) if model is not None)
    large = loaded_pair.resolved.target.footprint.weight_bytes >= MIN_WEIGHT_BYTES
    near = not any(pool.worker for pool in loaded_pair.plan.pools)
    return large and near and context >= MIN_CONTEXT


def key_of(loaded_pair: LoadedPair) -> str:
    """Return the key of a pair's history: weights, options and devices, whatever the versions."""
    ways = (loaded_pair.plan.options, loaded_pair.plan.drafting)
    options = [
        f"{way.kv_type} {way.flash_attention} {way.gpu_layers} {way.split} {way.cpu_moe} "
        f"{way.threads} {way.members} {way.adapters or None} {way.bit_exact} {bool(way.head)} "
        f"{way.own_products}{' metal' * (way.products == METAL_PRODUCTS)} "
        f"{way.threads_batch} {way.micro_batch} {way.split_mode}"
        for way in ways
        if way
    ]
    devices = [
        f"{model.files.engine} {device.kind} {device.name}"
        for model in loaded_pair.models
        for device in model.engine.devices
    ]
    adapters = [adapter.path for adapter in loaded_pair.plan.options.adapters]
    return fingerprint(
        [*(model.files.path for model in loaded_pair.models), *adapters],
        [f"form {FORM}", str(os.cpu_count()), *options, *devices],
    )


def versions_of(loaded_pair: LoadedPair) -> tuple[str, ...]:
    """List the software that decides how fast a pair is."""
    engines = dict.fromkeys(model.files.engine for model in loaded_pair.models)
    return tuple(dict.fromkeys(line for engine in engines for line in engine.versions()))


def folder() -> Path:
    return folders.cache() / "pairs"


def newest(count: int | None = None) -> list[History]:
    """Read the histories of pairs, or so many of them, the newest first."""
    return kept_json.newest(folder(), parse_history, count)


def fallen() -> list[str]:
    """Say of each pair that fell what did, the newest first."""
    return [sentence for history in newest() if (sentence := history.sentence())]


def parse_history(record: Mapping[str, Any]) -> History:
    before = record["before"] and Era.of_record(record["before"])
    now, on_host = Era.of_record(record["now"]), record["on_host"] is True
    return History(str(record["of"]), on_host, now, before)
