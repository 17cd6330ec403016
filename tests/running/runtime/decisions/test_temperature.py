"""A temperature makes answers as sure as they are right, and is kept for the model's file."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from localspec import Question, load
from localspec.base.errors import UsageError
from localspec.base.system import folders
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.decisions import kept_temperatures
from localspec.running.runtime.decisions.answer import Answer
from localspec.running.runtime.decisions.temperature import (
    COLDEST,
    HOTTEST,
    calibrate,
    fit,
    quality,
    tempered,
)
from localspec.running.runtime.runtime import Runtime
from tests import engines
from tests.apps.server.scripted import Bytes

OPTIONS = ("a", "b", "c")
ASKED = {"it": Question.predicate("Is it?"), "who": Question.choice("Who?", ["me", "you"])}


def softmax(logs):
    weights = np.exp(logs - np.max(logs))
    return tuple((weights / weights.sum()).tolist())


def drawn(temperature, count, seed=1):
    """Draw right answers from probabilities, and answers that are surer than these."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, 1.5, (count, len(OPTIONS)))
    rights = [OPTIONS[rng.choice(len(OPTIONS), p=softmax(row))] for row in logs]
    answers = [Answer(OPTIONS, softmax(row * temperature), 1.0) for row in logs]
    return list(zip(answers, rights, strict=True))


@pytest.mark.parametrize("temperature", [0.5, 2.0, 5.0])
def test_the_temperature_is_found_by_which_answers_are_too_sure(temperature):
    labelled = drawn(temperature, 2000)
    [calibration] = calibrate(labelled)
    assert (calibration.kind, calibration.helps) == ("choice", True)
    assert calibration.temperature == pytest.approx(temperature, rel=0.1)
    assert calibration.labels == 2000
    assert calibration.held_out.log_loss < calibration.plain.log_loss
    assert calibration.held_out.brier < calibration.plain.brier
    assert calibration.held_out.right == calibration.plain.right


def test_a_fit_has_the_least_log_loss():
    labelled = drawn(2.0, 50)
    lost = [
        quality([(tempered(answer, t), right) for answer, right in labelled]).log_loss
        for t in (fit(labelled) * step for step in (0.9, 1.0, 1.1))
    ]
    assert min(lost) == lost[1]


def test_a_tempered_answer_keeps_its_order_and_names_its_temperature():
    answer = Answer(OPTIONS, (0.7, 0.2, 0.1), 0.9)
    even = tempered(answer, 2.0)
    roots = [math.sqrt(share) for share in answer.probabilities]
    assert even.probabilities == pytest.approx([root / sum(roots) for root in roots])
    assert (even.best, even.temperature, even.label_mass) == ("a", 2.0, 0.9)
    assert tempered(answer, 1.0) is answer
    assert tempered(Answer(OPTIONS, (1.0, 0.0, 0.0), 1.0), HOTTEST).best == "a"


def test_quality_is_of_certain_even_and_wrong_answers():
    sure, even = Answer(("yes", "no"), (1.0, 0.0), 1.0), Answer(("yes", "no"), (0.5, 0.5), 1.0)
    assert quality([(sure, "yes")]).brier == 0
    assert quality([(even, "no")]).brier == pytest.approx(0.5)
    assert quality([(even, "no")]).log_loss == pytest.approx(math.log(2))
    assert quality([(sure, "no")]).brier == 2
    assert quality([(sure, "no")]).log_loss == 100  # not without end
    assert quality([(sure, "yes"), (even, "no")]).right == 1


def test_answers_that_are_right_each_time_become_no_certainties():
    labelled = [(Answer(OPTIONS, (0.6, 0.3, 0.1), 1.0), "a")] * 100
    temperature = fit(labelled)
    assert temperature > COLDEST
    assert max(tempered(labelled[0][0], temperature).probabilities) < 0.999


def test_each_kind_of_question_has_its_own_temperature():
    levels = [(replace(answer, kind="score"), right) for answer, right in drawn(4.0, 1000)]
    few = [(replace(answer, kind="predicate"), right) for answer, right in drawn(4.0, 15)]
    fitted = {each.kind: each.temperature for each in calibrate([*drawn(0.5, 1000), *levels, *few])}
    assert fitted == {"choice": pytest.approx(0.5, rel=0.1), "score": pytest.approx(4.0, rel=0.1)}


def test_right_answers_in_turn_are_in_both_halves():
    wrongly_sure = Answer(("yes", "no"), (0.3, 0.7), 1.0, "predicate")
    [calibration] = calibrate([(wrongly_sure, right) for right in ("yes", "no") * 10])
    assert calibration.helps
    assert calibration.held_out.brier == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    "labelled",
    [
        [(Answer(OPTIONS, (1 / 3,) * 3, 1.0), "a")] * 30,
        drawn(1.0, 16),
    ],
)
def test_a_temperature_that_helps_no_others_is_known_as_such(labelled):
    [calibration] = calibrate(labelled)
    assert not calibration.helps


@pytest.mark.parametrize(
    ("labelled", "message"),
    [
        (drawn(2.0, 15), "needs 16 right answers .*; choice has 15"),
        ([(Answer(("a",), (1.0,), 1.0), "a")] * 99, "there are none"),
        ([], "there are none"),
        ([(tempered(a, 2.0), r) for a, r in drawn(2.0, 30)], "have a temperature already"),
        ([(Answer(OPTIONS, (0.4, 0.3, 0.3), 1.0), "d")] * 30, "'d' is none of the options"),
    ],
)
def test_labels_that_teach_nothing_are_refused(labelled, message):
    with pytest.raises(UsageError, match=message):
        calibrate(labelled)


def labelled_by(model):
    """Ask about some states; what the model says most is mostly wrong."""
    answers = [
        answer
        for at in range(16)
        for answer in model.decide(f"the sea {at}", ASKED, calibrated=False).values()
    ]
    return [
        (answer, answer.options[answer.place - (at % 3 > 0)]) for at, answer in enumerate(answers)
    ]


def test_temperatures_are_kept_for_a_models_file_and_can_be_forgotten():
    path = engines.tiny("llama")
    with load(path) as model:
        plain = model.decide("the sea", ASKED)
        calibrations = {each.kind: each for each in model.calibrate(labelled_by(model))}
        now = model.decide("the sea", ASKED)
        assert model.decide("the sea", ASKED, calibrated=False) == plain
    assert calibrations.keys() == {"predicate", "choice"}
    assert any(each.helps for each in calibrations.values())
    for name, answer in plain.items():
        calibration = calibrations[answer.kind]
        temperature = calibration.temperature if calibration.helps else 1.0
        assert now[name] == tempered(answer, temperature)
    assert now != plain
    with load(path) as model:
        assert model.decide("the sea", ASKED) == now
        kept_temperatures.keep(model.facts, {})  # as where none helps
    with load(path) as model:
        assert model.decide("the sea", ASKED) == plain
        model.calibrate(labelled_by(model))
    with load(engines.tiny("qwen3")) as model:
        assert model.decide("the sea", ASKED)["it"].temperature == 1
    [record] = (folders.data() / "temperatures").glob("*.json")
    record.write_text(json.dumps({"temperatures": {"choice": 0.0, "predicate": 2.0}}))
    with load(path) as model:
        assert model.decide("the sea", ASKED) == plain
    assert kept_temperatures.drop_all() == 1
    assert kept_temperatures.drop_all() == 0


def test_a_model_without_files_keeps_no_temperature():
    model = ScriptedModel(lambda context: np.zeros(261, np.float32), Bytes(""))
    model.context = 4096
    refused = pytest.raises(UsageError, match="was not loaded from files")
    with Runtime(Engine(model, Silent())) as runtime, refused:
        runtime.calibrate(drawn(2.0, 100))
