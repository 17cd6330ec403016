"""What `localspec tune` found is used where the user leaves it open, as long as it holds."""

from __future__ import annotations

import pytest

from localspec.apps.command_line import run
from localspec.apps.tuning import command
from localspec.base.errors import LocalSpecError
from localspec.interfaces.backend import Options
from localspec.running.memory.planner import Limits
from localspec.running.models.locate import locate
from localspec.running.models.trial import Examined
from localspec.running.models.trial_speed import Speeds
from localspec.running.runtime import tuning
from localspec.running.runtime.loading import Loading, load
from localspec.running.runtime.tuning import Tuning, as_typed
from tests import engines

USUAL = Loading(Options(context=256), proposer="none")


@pytest.fixture(autouse=True)
def target(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return locate(str(engines.tiny("llama")))


def tuned(target, changes, loading=USUAL):
    return Tuning(changes, 1.5, "2026-01-02", tuning.circumstances(target, loading))


def test_a_model_is_loaded_as_tuned_and_says_so(target):
    assert tuning.keep(target, tuned(target, {"threads": 1, "micro_batch": 64}))
    with load(target.path, loading=USUAL) as model:
        options = model.facts.plan.options
        assert (options.threads, options.micro_batch) == (1, 64)
        assert any(
            "--threads 1 --micro-batch 64; 1.50 times" in line for line in model.facts.advice
        )
    assert tuning.forget(target)
    assert not tuning.forget(target)
    with load(target.path, loading=USUAL) as model:
        assert model.facts.plan.options.micro_batch is None


def test_what_no_longer_can_be_loaded_is_left_out(target, caplog):
    assert tuning.keep(target, tuned(target, {"micro_batch": 64, "split_mode": "tensor"}))
    with load(target.path, loading=USUAL) as model:
        assert model.facts.plan.options.micro_batch is None
    assert "loaded as usual, not as tuned: --split-mode tensor divides" in caplog.text


def test_an_option_of_the_user_wins_and_places_are_chosen_as_a_whole():
    kept = Tuning({"threads": 3, "gpu_layers": 4, "split_mode": "row"}, 1.5, "", ())
    assert kept.apply(Loading(Options(threads=1))).options.threads == 1
    chosen = kept.apply(Loading(Options(gpu_layers=9))).options
    assert (chosen.threads, chosen.gpu_layers, chosen.split_mode) == (3, 9, "layer")
    for limits in (Limits(device="cpu"), Limits(budget=1 << 30), Limits(main_gpu=1)):
        assert kept.open_changes(Loading(limits=limits)) == {"threads": 3}
    assert kept.open_changes(Loading(limits=Limits(text_only=True))) == dict(kept.changes)
    direct = Loading(Options(direct_io=True))
    assert Tuning({"mmap": True}, 1.5, "", ()).apply(direct) == direct


def test_it_holds_for_one_machine_one_file_and_what_decides_exactness(target):
    kept = tuned(target, {"threads": 1})
    tuning.keep(target, kept)
    assert tuning.find_tuning(target, USUAL) == kept
    assert tuning.find_tuning(target, Loading(Options(bit_exact=True))) is None
    assert tuning.find_tuning(target, Loading(limits=Limits(device="cpu"))) is None
    assert tuning.find_tuning(locate(str(engines.tiny("llama", seed=3))), USUAL) is None
    tuning.keep(target, Tuning({"threads": 1}, 1.5, "", ("another machine",)))
    assert tuning.find_tuning(target, USUAL) is None


@pytest.mark.parametrize("changes", [{"threads": 0}, {"speed": 9}, {"threads": "many"}, "fast"])
def test_a_record_that_makes_no_sense_is_none(target, changes):
    tuning.keep(target, Tuning(changes, 1.5, "", tuning.circumstances(target, USUAL)))
    assert tuning.find_tuning(target, USUAL) is None


def test_changes_are_written_as_they_would_be_typed():
    changes = {"mmap": True, "flash_attention": False, "micro_batch": 64, "gpu_layers": None}
    written = "--mmap --flash-attention off --micro-batch 64 --gpu-layers auto"
    assert as_typed(changes) == written


class Measured:
    """Measures by rule in place of a process; the tiny model is not asked."""

    def __init__(self, monkeypatch, speed, rivals=0.0):
        self.asked = []
        monkeypatch.setattr(Examined, "measure", lambda _, *about: self.measure(*about))
        self._speed, self._rivals = speed, rivals

    def measure(self, options, seconds, limit):
        self.asked.append(options)
        return Speeds(10.0, self._speed(options), 10.0, (1, 2), self._rivals)


def tune(target, *options):
    return run(["tune", str(target.path), "--seconds", "60", "--context", "256", *options])


@pytest.fixture(autouse=True)
def _no_costs(monkeypatch):
    monkeypatch.setattr(command, "measure_costs", lambda *_: None)


def test_tune_keeps_the_fastest_says_what_it_tried_and_forgets_it(target, monkeypatch, capsys):
    measured = Measured(monkeypatch, lambda options: 4.0 if options.micro_batch == 256 else 1.0)
    assert tune(target) == 0
    out = capsys.readouterr().out
    assert "--micro-batch 256" in out
    assert "2.00 times the usual speed" in out
    assert tuning.find_tuning(target, USUAL).changes == {"micro_batch": 256}
    measured.asked.clear()
    assert tune(target) == 0  # begins with what is kept
    assert [options.micro_batch for options in measured.asked[:2]] == [None, 256]
    assert tune(target, "--forget") == 0
    assert tuning.find_tuning(target, USUAL) is None


def test_tune_begins_with_the_options_that_are_given_and_finds_the_usual_ones(
    target, monkeypatch, capsys
):
    Measured(monkeypatch, lambda options: options.micro_batch or 1000.0)
    assert tune(target, "--micro-batch", "32", "--mmap", "--flash-attention", "off") == 0
    assert "which stays" in capsys.readouterr().out
    assert tuning.find_tuning(target, USUAL) is None


def test_what_was_measured_beside_other_programs_is_told_and_not_kept(target, monkeypatch, capsys):
    Measured(monkeypatch, lambda options: options.micro_batch or 1.0, rivals=0.4)
    assert tune(target) == 0
    assert "Other programs took 40% of the processors" in capsys.readouterr().out
    assert tuning.find_tuning(target, USUAL) is None


def test_an_interruption_keeps_the_old_choice_and_ends_with_130(target, monkeypatch):
    old = tuned(target, {"threads": 1})
    tuning.keep(target, old)

    def speed(options):
        if options.micro_batch:
            raise KeyboardInterrupt
        return 1.0

    Measured(monkeypatch, speed)
    assert tune(target) == 130
    assert tuning.find_tuning(target, USUAL) == old


def test_a_candidate_that_ends_its_process_ends_alone(target, monkeypatch, capsys):
    def speed(options):
        if options.micro_batch == 256:
            raise LocalSpecError("it ends its engine (SIGABRT)")
        return 2.0 if options.micro_batch == 128 else 1.0

    Measured(monkeypatch, speed)
    assert tune(target) == 0
    assert "it ends its engine (SIGABRT)" in capsys.readouterr().out
    assert tuning.find_tuning(target, USUAL).changes == {"micro_batch": 128}
