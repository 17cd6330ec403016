"""A training as its user meets it: refusals, the verdict, and what is kept of a drafter."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from localspec.apps.bench.drafter_verdict import TRAINED
from localspec.apps.bench.report import Report
from localspec.apps.bench.setup import Setup
from localspec.apps.bench.timed_run import Outcome
from localspec.apps.bench.train_draft import (
    Training,
    TrainingRequest,
    conclude,
    require_place,
    require_undrafted,
)
from localspec.apps.bench.training_line import TrainingLine
from localspec.apps.bench.training_run import (
    TEXTS,
    Learned,
    TrainingRun,
    train_apart,
    working_seconds,
)
from localspec.apps.bench.verdict import judge
from localspec.apps.command_line import run
from localspec.apps.training.record import Text
from localspec.apps.training.texts import WRITTEN, TextStore
from localspec.apps.training.working import WorkTime
from localspec.base.errors import BackendError, LocalSpecError, UsageError
from localspec.base.system.atomic_write import write
from localspec.base.tokens import tokens_of
from localspec.console.options.duration import seconds_in
from localspec.running.models import trained
from localspec.running.models.locate import ModelFiles, locate
from tests import engines
from tests.apps.bench.invented import HEADING, QUIET, reply, speeds
from tests.backends.gguf_copies import copied


@pytest.fixture
def model(tmp_path):
    return copied(engines.tiny("llama"), tmp_path / "mine.gguf")


@pytest.fixture
def training(tmp_path, monkeypatch):
    """A training of one text, in a home of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    store = TextStore(tmp_path / "training" / TEXTS)
    store.add(Text(tokens_of([1, 2, 3]), 1), WRITTEN)
    return Training(tmp_path / "training", store, Learned(1200, note="it knows enough"))


@pytest.fixture
def files(model):
    return ModelFiles(engines.GGUF_ENGINE, model)


def judged(auto, lookup=1.1, noise=0.0):
    """Make a verdict of speeds that were measured."""
    measured = [speeds(noise=noise, auto=auto, lookup=lookup) for _ in range(4)]
    verdict = judge(measured, TRAINED, QUIET)
    setup = Setup((*HEADING, ("versions", "")), ("plain", "lookup", "auto", "plain again"), TRAINED)
    outcome = Outcome((reply("plain"),), QUIET)
    return lambda *_: Report(setup, outcome, (), verdict, (), {})


def exported(files, folder, format, out):
    out.write_text(format)


def request(files, **changes):
    return replace(TrainingRequest(files, 60.0, None, "", None), **changes)


def test_a_drafter_that_pays_drafts_for_its_model_from_then_on(training, files, capsys):
    model = files.path
    assert locate(str(model)).draft is None
    conclude(request(files), training, judged(1.4), exported)
    drafter = locate(str(model)).draft
    assert drafter.read_text() == "gguf"
    name = f"eagle3-mine-{trained.key_of(model)[:8]}.gguf"
    assert drafter.name == name
    printed = capsys.readouterr().out
    assert "trained for 1,200 steps on 1 texts, 3 tokens\nended early: it knows" in printed
    assert "Keep it." in printed
    assert f"{drafter} (1 MiB) drafts for mine.gguf from now on" in printed
    record = json.loads(drafter.with_name(f"{drafter.name}.json").read_text())
    assert record["verdict"]["drafter_pays"] is True
    assert (record["steps"], record["texts"], record["tokens"]) == (
        1200,
        {"written": 1},
        {"written": 3},
    )
    assert list(record["target"]) == ["mine.gguf"]
    assert len(record["drafter"][name]) == 64
    kept = {name, f"{name}.json", f"{trained.key_of(model)}.json"}
    assert {path.name for path in drafter.parent.iterdir()} == kept


@pytest.mark.parametrize("auto", [1.1, 1.125, 0.8])
def test_a_drafter_that_does_not_pay_is_deleted_with_its_figures(training, files, auto, capsys):
    conclude(request(files), training, judged(auto), exported)
    assert locate(str(files.path)).draft is None
    printed = capsys.readouterr().out
    assert "So it is not kept." in printed
    assert "It was deleted." in printed
    record = json.loads((training.folder / "record.json").read_text())
    assert record["verdict"]["drafter_pays"] is False
    assert list(trained.drafters_folder().iterdir()) == []


def test_a_drafter_from_before_stays_where_a_later_one_does_not_pay(training, files):
    conclude(request(files), training, judged(1.4), exported)
    drafter = locate(str(files.path)).draft
    drafter.write_text("the first")
    conclude(request(files), training, judged(0.9), exported)
    assert locate(str(files.path)).draft.read_text() == "the first"
    conclude(request(files), training, judged(1.5), exported)
    assert locate(str(files.path)).draft.read_text() == "gguf"


@pytest.mark.parametrize("why", ["interrupted", "unsteady", "too slow"])
def test_nothing_is_kept_or_learned_in_vain_without_a_verdict(training, files, why):
    def unjudged(*_):
        made = judged(1.4, noise=2.0 if why == "unsteady" else 0.0)()
        if why == "too slow":
            return replace(made, verdict=None)
        return replace(made, outcome=replace(made.outcome, interrupted=why == "interrupted"))

    with pytest.raises(LocalSpecError, match="the same command judges once more"):
        conclude(request(files), training, unjudged, exported)
    assert locate(str(files.path)).draft is None


def test_a_drafter_is_written_for_another_engine_too(training, files, tmp_path, capsys):
    out = tmp_path / "for-a-mac"
    conclude(request(files, format="mlx", out=out), training, judged(1.4), exported)
    assert out.read_text() == "mlx"
    assert locate(str(files.path)).draft.read_text() == "gguf"
    assert f"{out} is the same for another engine" in capsys.readouterr().out


def test_a_drafter_is_not_that_of_another_model_with_the_same_name(training, files, model):
    conclude(request(files), training, judged(1.4), exported)
    copied(engines.tiny("llama", seed=3), model)
    assert locate(str(model)).draft is None


def test_a_drafter_that_was_removed_drafts_no_more(training, files):
    conclude(request(files), training, judged(1.4), exported)
    locate(str(files.path)).draft.unlink()
    assert locate(str(files.path)).draft is None


def test_places_where_something_lies_are_refused_but_for_the_drafter_itself(
    training, files, tmp_path
):
    out = tmp_path / "mine-eagle3.gguf"
    conclude(request(files, out=out), training, judged(1.4), exported)
    require_place(request(files, out=out))
    for changes, fault in (
        ({"out": files.path}, "is there already"),
        ({"out": tmp_path / "none" / "head.gguf"}, "there is no folder"),
        ({"format": "onnx"}, "known: gguf, mlx"),
        ({"format": "mlx"}, "--to mlx needs --out"),
    ):
        with pytest.raises(UsageError, match=fault):
            require_place(request(files, **changes))


def test_models_that_something_drafts_for_are_refused(training, files, tmp_path):
    files, footprint = files, locate_footprint(files.path)
    require_undrafted(files, footprint)
    with pytest.raises(UsageError, match=r"pulled with a drafter, other\.gguf"):
        require_undrafted(replace(files, draft=tmp_path / "other.gguf"), footprint)
    with pytest.raises(UsageError, match="has a drafting head"):
        require_undrafted(files, replace(footprint, drafting_layers=1))


def locate_footprint(path):
    from localspec_llamacpp import backend

    return backend.inspect(path)


def test_the_command_refuses_options_that_contradict_each_other(model, capsys):
    assert run(["make-draft", str(model), "--train", "--skip-layers", "1"]) == 2
    assert "omit --skip-layers" in capsys.readouterr().err
    assert run(["make-draft", str(model), "--train", "--budget", "2"]) == 2
    assert "write it as 2h, 90min or 45s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h", 7200), ("1.5 h", 5400), ("90min", 5400), ("45s", 45)],
)
def test_durations_are_written_as_people_do(text, seconds):
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["2", "h", "0h", "2 weeks", "-1h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(UsageError, match="write it as 2h, 90min or 45s"):
        seconds_in(text)


def test_the_time_worked_counts_over_runs_and_the_bar_shows_what_is_left():
    now = [0.0]
    work = WorkTime(7200, 1800, lambda: False, lambda: now[0])
    out = io.StringIO()
    line = TrainingLine(work, out, lambda: now[0])
    line("the model writes", "12,000 tokens so far")
    line("the model writes", "12,001 tokens so far")  # too early for another line
    now[0] = 1800.0
    line("the model writes", "24,000 tokens so far")
    line("the head learns", "step 1")
    assert out.getvalue().splitlines() == [
        "[######                  ]  25%, 1.5 h left: the model writes, 12,000 tokens so far",
        "[############            ]  50%, 1.0 h left: the model writes, 24,000 tokens so far",
        "[############            ]  50%, 1.0 h left: the head learns, step 1",
    ]


def test_a_training_knows_how_long_it_has_worked(training, files):
    write(training.folder / "time.json", '{"seconds": 1234.5}')
    run = TrainingRun(files, training.folder, 3600.0)
    assert run.work.seconds == pytest.approx(1234.5, abs=60)
    assert len(run.store.texts) == 1
    run._save()
    assert working_seconds(training.folder) >= 1234.5


def test_a_training_whose_process_dies_tells_so(files, tmp_path):
    (tmp_path / TEXTS).mkdir(parents=True)  # no file: a defect, which ends the process
    with pytest.raises(BackendError, match="the training ended with 1"):
        train_apart(files, tmp_path, 1.0, None)
