"""The costs that are measured when a pair is loaded, and kept."""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from localspec.apps.command_line import run
from localspec.apps.tuning import command as tune_command
from localspec.base.errors import UsageError
from localspec.base.system.fingerprint import fingerprint
from localspec.base.system.processors import RivalWatch
from localspec.core.proposers import registry
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Options
from localspec.interfaces.costs import Attention
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from localspec.running.memory.planner import Limits
from localspec.running.runtime import kept_calibrations, loading
from localspec.running.runtime.calibration import (
    MIN_HELD,
    SIZES,
    Calibration,
    calibrate,
    narrow_sizes,
)
from localspec.running.runtime.loaded_pair import load_models, resolve_and_load
from localspec.running.runtime.loading import Loading, load
from localspec.running.runtime.pair_files import PairFiles
from tests import engines

FOUND = Calibration(
    {1: 0.01, 5: 0.02},
    {"draft-model": {1: 0.001, 4: 0.004}},
    {"draft-model": 1e-4},
    Attention(1e-6, 2e-6),
    512,
)

FULL = Calibration({size: 0.01 + 0.002 * size for size in SIZES})


@pytest.fixture(autouse=True)
def _nothing_kept(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setattr(RivalWatch, "share", lambda _: 0.0)  # however busy this machine is


@pytest.mark.parametrize("options", [[], ["--draft", str(engines.tiny("llama", seed=3))]])
def test_a_context_with_no_room_to_measure_in_still_answers(options, capsys):
    model = str(engines.tiny("llama"))
    small = ["--threads", "1", "--context", "20"]
    assert run(["generate", model, "hi", "--max-tokens", "2", "--raw", *small, *options]) == 0
    assert not list(kept_calibrations.folder().glob("*"))  # it would be one for all contexts
    capsys.readouterr()
    assert run(["tune", model, *small, *options]) == 2
    assert run(["tune", model, "--costs", *small, *options]) == 2
    assert "--context is 20; to measure takes at least 73 tokens" in capsys.readouterr().err


class Clock:
    """Time that passes as tokens are fed."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Timed(ScriptedModel):
    """A model whose forwards take what a curve says."""

    def __init__(self, clock, first, more):
        super().__init__(hashed_logits(1))
        self._clock, self._first, self._more = clock, first, more

    def forward(self, rows):
        self._clock.now += self._first + self._more * (sum(len(row.tokens) for row in rows) - 1)
        return super().forward(rows)

    def roll(self, rolls):
        assert [len(roll.text) for roll in rolls] == [roll.start for roll in rolls]
        return super().roll(rolls)


def test_a_pair_is_measured_as_it_is_and_left_empty():
    clock = Clock()
    target, draft = Timed(clock, 0.01, 0.002), Timed(clock, 0.001, 0.0001)
    calibration = calibrate(target, draft, 1.0, clock=clock)
    assert calibration.target == pytest.approx({size: 0.01 + 0.002 * (size - 1) for size in SIZES})
    assert calibration.drafting["draft-model"] == pytest.approx({1: 0.001, 4: 0.004, 8: 0.008})
    assert calibration.reading["draft-model"] == pytest.approx(0.0001)
    assert target.truncate(0, 99) == draft.truncate(0, 99) == 0
    assert 1.5 <= clock.now < 2.5


class Recorded(Timed):
    """A model of which a forward takes longer unless the two before it were as wide."""

    _widths = (0, 0)

    def forward(self, rows):
        width = sum(len(row.tokens) for row in rows)
        if self._widths != (width, width):
            self._clock.now += 0.003
        self._widths = (self._widths[1], width)
        return super().forward(rows)


def test_plain_forwards_are_timed_in_a_row_and_wider_ones_in_turns():
    clock = Clock()
    times = calibrate(Recorded(clock, 0.01, 0.002), seconds=1.0, clock=clock).target
    in_turns = {size: 0.013 + 0.002 * (size - 1) for size in SIZES}
    assert times == pytest.approx({**in_turns, 1: 0.01})


class Calmer(Timed):
    """A model whose machine does other work until its draft model runs."""

    busy = True

    def forward(self, rows):
        self._clock.now += 3.0 if self.busy else 0.0
        return super().forward(rows)


class Later(Timed):
    def __init__(self, clock, target):
        super().__init__(clock, 0.001, 0.0001)
        self._target = target

    def forward(self, rows):
        self._target.busy = False
        return super().forward(rows)


def test_a_machine_that_is_calmer_in_the_end_is_measured_once_more():
    clock = Clock()
    target = Calmer(clock, 0.01, 0.002)
    draft = Later(clock, target)
    calibration = calibrate(target, draft, 1.0, clock=clock)
    assert calibration.target == pytest.approx({size: 0.01 + 0.002 * (size - 1) for size in SIZES})
    assert target.truncate(0, 99) == draft.truncate(0, 99) == 0


class LateHead:
    """A head that has read the first tokens of its model, and reads the others each time."""

    proposer = "mtp"

    def __init__(self, clock, model):
        self._clock, self._model = clock, model

    def roll(self, rolls):
        assert [len(roll.text) for roll in rolls] == [roll.start for roll in rolls]
        behind = self._model.truncate(0, 1 << 20) - MIN_HELD
        self._clock.now += 5e-4 * behind + 0.002 * rolls[0].depth
        return []


def test_a_head_is_measured_by_its_drafts_and_by_what_it_reads_first():
    clock = Clock()
    target = Timed(clock, 0.01, 0.002)
    target.head = LateHead(clock, target)
    calibration = calibrate(target, seconds=1.0, clock=clock)
    assert calibration.drafting["mtp"] == pytest.approx({1: 0.002, 4: 0.008, 8: 0.016})
    assert calibration.reading["mtp"] == pytest.approx(5e-4)
    assert target.truncate(0, 99) == 0


class Attentive(Timed):
    """A model that looks back at each token held."""

    def forward(self, rows):
        for row in rows:
            held = self.truncate(row.slot, 1 << 20)
            self._clock.now += held * (1e-6 + 2e-6 * len(row.tokens))
        return super().forward(rows)


def test_attention_is_told_from_the_rest():
    clock = Clock()
    calibration = calibrate(Attentive(clock, 0.01, 0.002), seconds=4.0, clock=clock)
    assert calibration.attention == pytest.approx((1e-6, 2e-6))
    behind_nothing = calibration.costs().target(1)
    assert [behind_nothing.at(size) for size in (1, 9)] == pytest.approx([0.01, 0.026])
    assert calibration.target[9] == pytest.approx(0.026 + calibration.held * 19e-6)


def test_too_slow_a_model_to_fill_teaches_nothing_of_attention():
    clock = Clock()
    calibration = calibrate(Timed(clock, 0.8, 0.2), seconds=1.0, clock=clock)
    assert calibration.attention == (0, 0)
    assert calibration.costs().target(1).points() == calibration.target


def test_a_slow_model_is_not_measured_for_long():
    clock = Clock()
    calibrate(Timed(clock, 0.8, 0.2), seconds=1.0, clock=clock)
    assert clock.now < 25


@pytest.mark.parametrize(
    ("first", "more", "wide"),
    [
        (0.001, 2e-5, (32, 64, 128, 256, 512)),
        (0.01, 2e-3, (32, 64)),
        (0.04, 0.01, (32,)),
    ],
)
def test_wide_forwards_are_measured_as_far_as_there_is_time(first, more, wide):
    clock = Clock()
    target = Timed(clock, first, more)
    target.batch, target.tentative, target.context = 514, 512, 2048
    narrow = calibrate(Timed(ours := Clock(), first, more), seconds=1.0, clock=ours)
    calibration = calibrate(target, seconds=1.0, clock=clock)
    assert tuple(size for size in calibration.target if size not in narrow.target) == wide
    assert all(
        calibration.target[size] == pytest.approx(first + more * (size - 1)) for size in wide
    )
    assert clock.now - ours.now < 0.55
    costs = calibration.costs().target(1)
    assert costs.at(513) == pytest.approx(first + more * 512, rel=0.01)


def test_where_no_wide_forward_can_be_measured_it_is_as_quick_as_the_best_of_few():
    """Blocks of 16 are: a line through 9 and 17 would make 129 tokens far too cheap."""
    seconds = {1: 0.4, 2: 0.8, 3: 1.1, 5: 1.8, 8: 2.5, 9: 2.9, 16: 2.7, 17: 3.2}

    class Blocks(Timed):
        def forward(self, rows):
            [row] = rows
            if row.outputs:
                self._clock.now += seconds[len(row.tokens)]
            return super().forward(rows)

    target = Blocks(clock := Clock(), 0.0, 0.0)
    target.batch, target.tentative, target.context = 514, 512, 2048
    costs = calibrate(target, seconds=1.0, clock=clock).costs().target(1)
    assert costs.at(33) == pytest.approx(2.7 * 33 / 16, rel=0.05)
    assert costs.at(129) == pytest.approx(2.7 * 129 / 16, rel=0.1)


def test_no_forward_is_measured_that_is_wider_than_the_longest_draft_or_the_context():
    for tentative, context, widest in ((100, 2048, 64), (512, 700, 128)):
        target = Timed(clock := Clock(), 0.001, 1e-6)
        target.batch, target.tentative, target.context = 514, tentative, context
        assert max(calibrate(target, seconds=1.0, clock=clock).target) == widest


def test_measurements_that_fall_are_not_steady():
    assert FOUND.steady
    assert not Calibration({1: 0.02, 5: 0.01}).steady


@pytest.fixture
def tiny_pair():
    """Return a function that loads a tiny model with options."""

    @contextmanager
    def loaded_with(**options):
        files = PairFiles.locate(engines.tiny("llama"), None, "auto")
        options = Options(**{"context": 1024, "threads": 1, **options})
        with resolve_and_load(files, options, Limits()) as loaded:
            yield loaded

    return loaded_with


class Measuring:
    """Measurements that are counted, on a machine that is busy or not."""

    def __init__(self, calibration=FULL):
        self.calibration, self.count, self.busy = calibration, 0, False

    def __call__(self, *_):
        self.count += 1
        return self.calibration

    def costs_of(self, loaded):
        return kept_calibrations.load_or_measure(loaded, measure=self, is_busy=lambda: self.busy)


def test_of_a_machine_too_busy_to_measure_no_more_than_drafting_is_kept_until_it_is_free(tiny_pair):
    measuring = Measuring(replace(FOUND, target={1: 0.02, 5: 0.01}))
    measuring.busy = True
    with tiny_pair() as loaded:
        guessed = replace(measuring.calibration.in_plain_rounds(), busy=True)
        assert measuring.costs_of(loaded) == measuring.costs_of(loaded) == guessed
        assert measuring.count == 1
        measuring.calibration, measuring.busy = FULL, False
        assert [measuring.costs_of(loaded) for _ in range(2)] == [FULL, FULL]
        assert measuring.count == 2


def test_what_was_measured_beside_other_programs_is_marked():
    for share, busy in ((0.1, False), (0.2, True)):
        measured = kept_calibrations.watched(lambda: FOUND, lambda share=share: share)
        assert measured == replace(FOUND, busy=busy)


@pytest.mark.parametrize(
    "options",
    [
        {"slots": 3},
        {"context": 512},
        {"slots": 2, "shared": True},
        {"tentative": 100, "batch": 256},
        {"verbose": True},
    ],
)
def test_options_by_which_a_token_takes_as_long_share_their_costs(options, tiny_pair):
    measuring = Measuring()
    measuring.busy = True  # so that nothing is measured because the machine became free
    for each in ({}, options):
        with tiny_pair(**each) as loaded:
            measuring.costs_of(loaded)
    assert measuring.count == 1


@pytest.mark.parametrize("options", [{"threads": 2}, {"kv_type": "q8_0"}, {"bit_exact": True}])
def test_options_by_which_it_may_take_longer_are_measured(options, tiny_pair):
    measuring = Measuring()
    measuring.busy = True
    for each in ({}, options):
        with tiny_pair(**each) as loaded:
            measuring.costs_of(loaded)
    assert measuring.count == 2


def test_drafts_that_are_longer_than_any_that_was_measured_are_measured(tiny_pair):
    short, long = (ScriptedModel(hashed_logits(1)) for _ in range(2))
    short.tentative, long.tentative, long.batch = 4, 100, 256
    measured = Calibration(dict.fromkeys(narrow_sizes(short), 0.01))
    assert kept_calibrations.serves(measured, short)
    assert not kept_calibrations.serves(measured, long)
    assert kept_calibrations.serves(replace(measured, busy=True), long)
    assert kept_calibrations.serves(FULL, long)
    assert kept_calibrations.serves(FULL, short)


def test_of_a_machine_too_busy_to_measure_is_kept_what_drafting_takes_of_a_plain_round():
    guessed = FOUND.in_plain_rounds()
    plain = guessed.target[1]
    assert guessed.drafting["draft-model"] == pytest.approx({1: 0.1 * plain, 4: 0.4 * plain})
    assert guessed.reading["draft-model"] == pytest.approx(0.01 * plain)
    assert not guessed.held


def test_a_block_of_tokens_that_takes_less_than_fewer_is_no_sign_of_a_busy_machine():
    assert Calibration({9: 0.29, 16: 0.20, 17: 0.34, 33: 0.56}).steady
    assert not Calibration({9: 0.29, 16: 0.27, 17: 0.2}).steady


def test_what_is_kept_is_found_again():
    kept_calibrations.keep("pair", FOUND)
    assert kept_calibrations.find("pair") == FOUND
    assert kept_calibrations.find("other") is None


@pytest.mark.parametrize(("seconds", "stays"), [(60.0, False), (1e-6, True)])
def test_costs_that_were_measured_on_a_much_busier_machine_are_forgotten(seconds, stays):
    path = engines.tiny("llama")
    with PairFiles.locate(path, None, "auto").examine() as examined:
        resolved = loading.resolve(examined, Loading())
    with load_models(resolved, insists=False) as loaded:
        key = kept_calibrations.key_of(loaded)
    measured = {size: seconds * (1 + size / 17) for size in SIZES}
    kept_calibrations.keep(key, Calibration(measured))
    with load(path) as runtime:
        runtime.generate([1, 2, 3], Settings(max_tokens=20, ignore_end=True))
    assert (kept_calibrations.find(key) is not None) == stays


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "",
        lambda text: "[]",
        lambda text: "null",
        lambda text: text.replace("0.02", '"soon"'),
        lambda text: text.replace("0.02", "-1"),
        lambda text: text.replace("0.02", "NaN"),
        lambda text: text.replace("drafting", "draughts"),
        lambda text: json.dumps({**json.loads(text), "target": {"1": 0.1}}),
        lambda text: json.dumps({**json.loads(text), "target": {"one": 0.1, "two": 0.2}}),
        lambda text: json.dumps({**json.loads(text), "reading": [1]}),
    ],
)
def test_what_was_kept_and_damaged_is_ignored(damage):
    kept_calibrations.keep("pair", FOUND)
    file = kept_calibrations.folder() / "pair.json"
    file.write_text(damage(file.read_text()))
    assert kept_calibrations.find("pair") is None
    kept_calibrations.keep("pair", FOUND)
    assert kept_calibrations.find("pair") == FOUND


def test_a_place_that_cannot_be_written_is_no_reason_to_fail():
    kept_calibrations.folder().parent.mkdir(parents=True, exist_ok=True)
    kept_calibrations.folder().write_text("a file where the folder should be")
    kept_calibrations.keep("pair", FOUND)
    assert kept_calibrations.find("pair") is None


def test_nothing_half_written_is_left_behind():
    for _ in range(3):
        kept_calibrations.keep("pair", FOUND)
    assert [path.name for path in kept_calibrations.folder().iterdir()] == ["pair.json"]


def test_other_weights_or_circumstances_are_measured_apart(tmp_path):
    model = tmp_path / "model.gguf"
    model.write_bytes(b"a" * 100)
    keys = {fingerprint([model], ["2 threads"]), fingerprint([model], ["4 threads"])}
    model.write_bytes(b"a" * 99 + b"b")
    keys.add(fingerprint([model], ["2 threads"]))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    keys.add(fingerprint([folder], ["2 threads"]))
    (folder / "config.json").write_text("{ }")
    keys.add(fingerprint([folder], ["2 threads"]))
    assert len(keys) == 5


@pytest.fixture
def measured(monkeypatch):
    """Load a model after measurements in which each forward seems to take so many seconds."""

    def load_with(seconds):
        ticks = itertools.count(step=seconds)
        draft, *_ = calibrate.__defaults__
        defaults = (draft, 100 * seconds, lambda: next(ticks))
        monkeypatch.setattr(calibrate, "__defaults__", defaults)
        return load(engines.tiny("llama"), loading=Loading(engines.OPTIONS))

    return load_with


def test_a_pair_is_measured_once_and_then_remembered(measured):
    with measured(1e-6):
        pass
    [file] = kept_calibrations.folder().iterdir()
    before = file.stat().st_mtime_ns
    with measured(1e-6) as model:
        assert model.generate("the code", Settings(max_tokens=5)).tokens
    assert file.stat().st_mtime_ns == before


def test_what_was_measured_on_a_busy_machine_is_forgotten_once_rounds_are_much_faster(measured):
    with measured(1.0) as model:
        assert list(kept_calibrations.folder().iterdir())
        assert model.generate("the code", Settings(max_tokens=50, ignore_end=True)).tokens
    assert not list(kept_calibrations.folder().iterdir())


def test_tune_prints_the_curves_and_keeps_them(capsys):
    path = str(engines.tiny("llama"))
    code = run(["tune", path, "--draft", path, "--seconds", "12", "--costs"])
    out, err = capsys.readouterr()
    is_kept = any(kept_calibrations.folder().glob("*"))
    if code:
        assert (out, is_kept, "more tokens took less time" in err) == ("", False, True)
        return
    assert "tokens checked at once" in out
    assert "tokens drafted by draft-model" in out
    assert is_kept


UNSTEADY = Calibration({size: 0.01 / size for size in SIZES})


@pytest.mark.parametrize(
    ("calibration", "share", "fault"),
    [
        (FULL, 0.1, ""),
        (FULL, 0.4, "other programs took 40% of the processors"),
        (UNSTEADY, 0.0, "more tokens took less time than fewer"),
    ],
)
def test_tune_shows_and_keeps_no_costs_of_a_busy_machine(
    calibration, share, fault, capsys, monkeypatch
):
    monkeypatch.setattr(RivalWatch, "share", lambda _: share)
    monkeypatch.setattr(tune_command, "calibrate", lambda *_: calibration)
    code = run(["tune", str(engines.tiny("llama")), "--costs"])
    out, err = capsys.readouterr()
    assert (code, fault in err) == (int(bool(fault)), True)
    for is_there in ("tokens checked at once" in out, any(kept_calibrations.folder().glob("*"))):
        assert is_there is not bool(fault)


def test_proposers_are_known_by_name():
    assert {"forced", "prediction", "suffix", "ngram", "draft-model"} <= set(registry.all_names())
    assert registry.choose("auto", "draft-model")[-1] == "draft-model"
    assert registry.choose("auto", "eagle3")[-1] == "eagle3"
    assert registry.choose("ngram, suffix") == ("ngram", "suffix")
    assert registry.choose("ngram", "mtp") == ("ngram",)  # it is there anyway
    assert registry.choose("none") == ()
    for wish, drafter in (
        ("oracle", ""),
        ("draft-model", ""),
        ("draft-model", "mtp"),
        ("dflash", "eagle3"),
        ("ngram", "draft-model"),
        ("ngram", "eagle3"),
        ("", ""),
    ):
        with pytest.raises(UsageError):
            registry.choose(wish, drafter)


class Forgetful(ScriptedModel):
    """A model that can take no more than its last few tokens back, and counts what it reads."""

    def __init__(self):
        super().__init__(hashed_logits(1))
        self.read = 0

    def forward(self, rows):
        self.read += sum(len(row.tokens) for row in rows)
        return super().forward(rows)

    def truncate(self, slot, length):
        return super().truncate(slot, 0)


def test_a_model_that_cannot_go_back_is_not_made_to_read_for_long():
    model, clock = Forgetful(), itertools.count(step=0.02)
    calibrate(model, seconds=1.0, clock=lambda: next(clock))
    assert model.read < 512 + 50 * (32 + 17)


def test_a_small_context_is_enough():
    model, clock = ScriptedModel(hashed_logits(1)), itertools.count(step=0.02)
    model.context = 96
    assert calibrate(model, seconds=1.0, clock=lambda: next(clock)).steady


def test_attention_is_told_on_a_machine_that_is_busy_when_a_slot_is_filled():
    class Busy(Attentive):
        def forward(self, rows):
            if not sum(row.outputs for row in rows):
                self._clock.now += 0.15
            return super().forward(rows)

    clock = Clock()
    calibration = calibrate(Busy(clock, 0.01, 0.002), seconds=1.0, clock=clock)
    assert calibration.attention == pytest.approx((1e-6, 2e-6))


def test_the_end_of_the_process_does_not_wait_for_a_measurement():
    """Ctrl-C while its thread begins once left a process behind, whose engine stayed in a call."""
    assert kept_calibrations.measure_apart(lambda: threading.current_thread().daemon)
    with pytest.raises(KeyError, match="no engine"):
        kept_calibrations.measure_apart(lambda: {}["no engine"])
    assert [each for each in threading.enumerate() if each.name.startswith("measuring")] == []
