"""What is told of a pair after a version changed, and what is taken for noise."""

from __future__ import annotations

import json
import math
import random
from contextlib import closing
from dataclasses import asdict, replace
from itertools import count, islice

import pytest

from localspec.apps.commands.doctor import falls
from localspec.base.system import kept_json
from localspec.base.system.machine_load import LoadWatch, MachineLoad
from localspec.base.system.processors import ProcessorTimes
from localspec.core.pairing.pair import Pair
from localspec.interfaces.backend import Options
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from localspec.running.memory.planner import Limits
from localspec.running.runtime import kept_calibrations, pair_history
from localspec.running.runtime.loaded_pair import resolve_and_load
from localspec.running.runtime.loading import Loading, load_pair
from localspec.running.runtime.pair_files import PairFiles
from localspec.running.runtime.pair_history import (
    MAX_TRIES,
    Era,
    History,
    check_for_slowdown,
    key_of,
    parse_history,
    update,
)
from localspec.running.runtime.pair_speed import MAX_SECONDS, POSITIONS, PairSpeed, measure
from tests import engines

OLD, NEW = ("localspec 1.0", "engine 0.3.36"), ("localspec 1.0", "engine 0.3.37")
JITTER = (1.0, 1.02, 0.99, 1.01, 0.98)
AGREED = "1101" * 24


def speed(slower=1.0, checking=1.0, agreed=AGREED, memory=10e9, busy=False):
    plain = () if busy else tuple(0.1 * slower * part for part in JITTER)
    checks = () if busy else tuple(0.2 * slower * checking * part for part in reversed(JITTER))
    return PairSpeed(agreed, plain, checks, MachineLoad(0.9, 0.0, (memory, memory)))


class Loads:
    """A pair that is loaded again and again."""

    def __init__(self, place, on_host=True):
        self.place, self.on_host, self.measured = place, on_host, 0

    def __call__(self, versions, *speeds):
        """Load it once for each speed that it has then; return what the last time told."""
        sentence = ""
        for one in speeds:
            fresh = History("some.gguf", self.on_host, Era(versions))
            sentence = update(self.place, fresh, lambda one=one: self.measure(one))
        return sentence

    def measure(self, speed):
        self.measured += 1
        return speed


@pytest.fixture
def load(tmp_path):
    return Loads(tmp_path / "pairs" / "pair.json")


def test_a_version_that_loses_a_fifth_is_told_from_the_second_load_on(load):
    assert load(OLD, speed()) == ""
    assert load(NEW, speed(1.25)) == ""  # which may be bad luck
    sentence = load(NEW, speed(1.25))
    assert sentence == (
        "since engine 0.3.37 (was 0.3.36), some.gguf decodes plainly at 0.80 ± 0.07 of the speed "
        "and checks drafts at 0.80 ± 0.07 of the speed"
    )
    assert load(NEW, *[speed(1.25)] * 4) == sentence
    assert load.measured == 1 + MAX_TRIES


@pytest.mark.parametrize("slower", [0.8, 0.97, 1.0, 1.03, 1.06])
def test_a_version_within_the_noise_is_not(load, slower):
    load(OLD, speed())
    assert load(NEW, *[speed(slower)] * 4) == ""
    assert load.measured == 2


def test_one_slow_load_is_forgotten_after_a_fast_one(load):
    load(OLD, speed())
    assert load(NEW, speed(1.5), speed(1.0), speed(1.5)) == ""
    assert load.measured == 3


def test_a_machine_that_is_slower_today_accuses_no_version(load):
    load(OLD, speed())
    assert load(NEW, *[speed(1.25, memory=8e9)] * 3) == ""
    load(OLD, speed())
    assert load(("engine 3",), *[speed(3.3, memory=3e9)] * 3) == ""


def test_on_a_gpu_the_hosts_memory_excuses_nothing(load):
    load.on_host = False
    load(OLD, speed())
    assert "at 0.80" in load(NEW, *[speed(1.25, memory=8e9)] * 2)


def test_drafts_that_became_dearer_to_check_are_told_alone(load):
    load(OLD, speed())
    sentence = load(NEW, *[speed(checking=1.4)] * 2)
    assert "some.gguf checks drafts at 0.71" in sentence


def test_a_drafter_that_guesses_worse_is_told_at_once_even_where_the_machine_is_busy(load):
    load(OLD, speed(agreed="1" * 64 + "0" * 32))
    worse = "1" * 48 + "0" * 40 + "1" * 2
    assert load(NEW, speed(agreed=worse, busy=True)) == (
        "since engine 0.3.37 (was 0.3.36), some.gguf accepts 56% of the drafts of a test text "
        "(71% before, ± 12%)"
    )


def drawn(rng, loss=0.0, spread=0.03):
    """A measurement whose times vary by themselves, and from one load to the next."""
    load = rng.gauss(0, 0.01) - math.log(1 - loss)
    times = [[0.1 * math.exp(load + rng.gauss(0, spread)) for _ in range(5)] for _ in range(2)]
    return PairSpeed("", *map(tuple, times), MachineLoad(0.9, 0.0, (1e10, 1e10)))


@pytest.mark.parametrize(("loss", "fewest", "most"), [(0.0, 0, 0), (0.2, 97, 100)])
def test_of_a_hundred_versions_those_are_told_that_lose_a_fifth(loss, fewest, most):
    rng, falls = random.Random(1), 0
    for _ in range(100):
        history = History("some.gguf", True, Era(OLD, 1, drawn(rng))).with_versions(NEW)
        for _ in range(MAX_TRIES):
            history = history.with_speed(drawn(rng, loss))
        falls += bool(replace(history, now=replace(history.now, tries=MAX_TRIES)).sentence())
    assert fewest <= falls <= most


def test_a_few_guesses_that_turned_both_ways_are_near_ties(load):
    load(OLD, speed(agreed="1" * 40 + "0" * 56))
    turned = "1" * 36 + "0" * 4 + "1" * 2 + "0" * 54
    assert load(NEW, speed(agreed=turned)) == ""


def test_a_busy_machine_is_measured_again_but_not_for_ever(load):
    assert load(OLD, *[speed(busy=True)] * 5) == ""
    assert load.measured == MAX_TRIES


def test_a_version_that_fell_is_no_measure_for_the_next(load):
    load(OLD, speed())
    load(NEW, *[speed(1.25)] * 2)
    assert "since engine 0.3.38 (was 0.3.36)" in load(("engine 0.3.38",), *[speed(1.25)] * 2)
    assert load(("engine 0.3.39",), speed(1.0)) == ""


def test_going_back_to_the_version_before_ends_the_accusation(load):
    load(OLD, speed())
    load(NEW, *[speed(1.25)] * 2)
    assert load(OLD, speed()) == ""
    assert kept_json.load(load.place, parse_history).now.versions == OLD
    assert load.measured == 3


@pytest.fixture
def a_cache(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    return pair_history.folder()


def test_the_doctor_names_pairs_that_fell_and_no_others(a_cache):
    for name, slower in (("one", 1.25), ("other", 1.0)):
        load = Loads(a_cache / f"{name}.json")
        load(OLD, speed())
        load(NEW, *[speed(slower)] * 2)
    (a_cache / "broken.json").write_text("{")
    [finding] = falls()
    assert finding.state.startswith("since engine 0.3.37 (was 0.3.36), some.gguf decodes")
    assert "earlier version" in finding.step


def test_the_doctor_of_a_new_machine_knows_of_no_pairs(a_cache):
    assert list(falls()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("now"),
        lambda record: record.update(now=3),
        lambda record: record["now"].update(tries="x"),
        lambda record: record["now"]["speed"].update(plain=[1.0]),
        lambda record: record["now"]["speed"].update(plain=[-1.0] * 5),
        lambda record: record["now"]["speed"].update(agreed="yes"),
        lambda record: record["now"]["speed"]["load"].update(copied=[0, 0]),
    ],
)
def test_a_history_that_was_changed_by_hand_begins_anew(change, load):
    load(OLD, speed())
    record = asdict(kept_json.load(load.place, parse_history))
    change(record)
    load.place.write_text(json.dumps(record))
    assert load(NEW, *[speed(1.25)] * 3) == ""


def test_where_nothing_can_be_kept_nothing_is_measured(tmp_path):
    (tmp_path / "pairs").write_text("a file where the folder should be")
    load = Loads(tmp_path / "pairs" / "pair.json")
    assert load(OLD, speed(), speed()) == ""
    assert load.measured == 0


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Timed(ScriptedModel):
    """A model whose forwards take a hundredth of a second, and longer by their tokens."""

    def __init__(self, clock, seed=1, first=0.01):
        super().__init__(hashed_logits(seed))
        self._clock, self._first = clock, first

    def forward(self, rows):
        self._clock.now += self._first + 0.001 * sum(len(row.tokens) for row in rows)
        return super().forward(rows)


def watch(busy=0.0):
    readings = iter([ProcessorTimes(0.0, 0.0, 0.0), ProcessorTimes(0.0, 1.0, 1.0 - busy)])
    return lambda: LoadWatch(lambda: next(readings), lambda: 1e10)


def test_a_pair_is_measured_as_it_is_and_left_empty():
    clock = Clock()
    target, draft = Timed(clock), Timed(clock)
    measured = measure(Pair(target, draft), clock, watch())
    assert measured.agreed == "1" * POSITIONS
    assert measured.plain == pytest.approx([0.011] * len(measured.plain))
    assert measured.checking == pytest.approx([0.015] * len(measured.plain))
    assert len(measured.plain) >= 3
    assert target.truncate(0, 99) == draft.truncate(0, 99) == 0


def test_a_drafter_that_is_another_model_agrees_now_and_then():
    clock = Clock()
    measured = measure(Pair(Timed(clock), Timed(clock, seed=2)), clock, watch())
    assert 0 < measured.agreed.count("1") < len(measured.agreed)
    assert measure(Pair(Timed(clock)), clock, watch()).agreed == ""


def test_on_a_busy_machine_no_speed_is_measured_and_on_a_slow_one_not_for_long():
    clock = Clock()
    measured = measure(Pair(Timed(clock), Timed(clock)), clock, watch(busy=0.5))
    assert (measured.plain, measured.checking, measured.agreed) == ((), (), "1" * POSITIONS)
    slow = Clock()
    assert measure(Pair(Timed(slow, first=9.0)), slow, watch()).plain == ()
    assert slow.now < 10 * MAX_SECONDS + 9


TARGETS = ["llama", "mamba2", *islice(engines.HEADS, 1), "llama-eagle3", "llama-dflash"]
TARGETS += [*engines.MLX[:1], *engines.MLX_HEADS[:1]]


@pytest.mark.parametrize("name", TARGETS)
def test_each_engine_and_kind_of_head_is_measured_and_left_empty(name):
    with closing(engines.target(name)) as target:
        measured = measure(Pair(target), count(step=1e-6).__next__, watch())
        assert len(measured.plain) == len(measured.checking) >= 3
        assert len(measured.agreed) == (POSITIONS if name in engines.HEADS else 0)
        assert target.truncate(0, 99) == 0


def test_a_draft_model_of_another_vocabulary_is_measured_by_the_targets_tokens():
    with (
        closing(engines.target("llama")) as target,
        closing(engines.strange_draft(target)) as draft,
    ):
        assert len(measure(Pair(target, draft), watch_load=watch()).agreed) == POSITIONS


@pytest.fixture
def loaded(a_cache):
    """A pair that counts as large."""
    options = Options(context=512, threads=1, gpu_layers=0)
    files = PairFiles.locate(engines.tiny("llama"), engines.tiny("llama", seed=3), "auto")
    with resolve_and_load(files, options, Limits()) as found:
        target = found.resolved.target
        large = replace(target, footprint=replace(target.footprint, weight_bytes=1 << 30))
        yield replace(found, resolved=replace(found.resolved, target=large))


def test_a_pair_is_measured_when_it_is_first_loaded_and_keyed_by_what_is_no_version(
    loaded, a_cache
):
    phases = []
    assert check_for_slowdown(loaded, phases.append) == ""
    assert [phase.name for phase in phases] == ["measuring"]
    [file] = a_cache.glob("*.json")
    versions = kept_json.load(file, parse_history).now.versions
    assert any(line.startswith("localspec ") for line in versions)
    assert any(line.startswith("llama-cpp-python ") for line in versions)
    newer = replace(loaded.plan, options=replace(loaded.plan.options, tentative=3, batch=99))
    same = replace(loaded, resolved=replace(loaded.resolved, plan=newer))
    assert key_of(same) == key_of(loaded)
    for change in ({"kv_type": "q4_0"}, {"products": "llama.cpp"}, {"mmap": True}):
        other = replace(loaded.plan, options=replace(loaded.plan.options, **change))
        changed = replace(loaded, resolved=replace(loaded.resolved, plan=other))
        assert key_of(changed) != key_of(loaded)
        assert kept_calibrations.key_of(changed) != kept_calibrations.key_of(loaded)


def test_a_fall_is_advice_at_load_unless_the_depth_is_fixed():
    files = PairFiles.locate(engines.tiny("llama"), None, "auto")

    def advice(**fields):
        options = Options(context=512, threads=1, gpu_layers=0)
        loading = Loading(options, **fields)
        with load_pair(files, loading, note=lambda pair, tell: "since now it fell") as runtime:
            return list(runtime.facts.advice)

    assert advice() == ["since now it fell"]
    assert advice(depth=2) == advice(proposer="none") == []


def test_small_models_and_short_contexts_are_not_measured(loaded, a_cache):
    target = loaded.resolved.target
    small = replace(target, footprint=replace(target.footprint, weight_bytes=1 << 20))
    other = replace(loaded, resolved=replace(loaded.resolved, target=small))
    assert check_for_slowdown(other) == ""
    short = ScriptedModel(hashed_logits(1))
    short.context = 100
    assert check_for_slowdown(replace(loaded, pair=Pair(short))) == ""
    assert not a_cache.exists()


def test_another_form_of_the_record_is_read_back_as_it_was(load):
    load(OLD, speed())
    history = kept_json.load(load.place, parse_history)
    assert history == History("some.gguf", True, Era(OLD, 1, speed()))
    assert replace(history, before=history.now).sentence() == ""


def test_what_was_measured_on_a_busy_machine_is_measured_again_once_it_is_free(tmp_path):
    fresh, measured = History("some.gguf", True, Era(OLD)), []

    def loaded(*, busy):
        update(tmp_path / "kept", fresh, lambda: measured.append(1) or PairSpeed(), lambda: busy)
        return len(measured)

    assert [loaded(busy=busy) for busy in (True, True, True, False)] == [1, 1, 1, 2]
