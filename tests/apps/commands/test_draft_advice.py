"""The price of checking some tokens at once, in words."""

from __future__ import annotations

import pytest

from localspec.apps.command_line import run
from localspec.apps.commands.draft_advice import best, describe
from localspec.running.runtime import kept_calibrations
from localspec.running.runtime.calibration import Calibration

FLAT = {1: 0.010, 2: 0.010, 5: 0.011, 9: 0.012}  # a GPU, of which one token uses little
STEEP = {1: 0.010, 2: 0.020, 5: 0.050, 9: 0.090}


def test_the_price_of_some_widths_is_told_as_multiples_of_one_token():
    price, _ = describe(Calibration(FLAT))
    assert price == "checking 2 tokens 1.0, 4 tokens 1.1, 8 tokens 1.2 times the time of one"


def test_the_best_draft_is_the_one_with_most_tokens_a_second():
    lengths = {n: (1 - 0.8 ** (n + 1)) / (1 - 0.8) for n in range(9)}
    seconds = [0.01, 0.01, 0.010333, 0.010667, 0.011, 0.01125, 0.0115, 0.01175, 0.012]
    gains = [lengths[n] / (seconds[n] / 0.01) for n in range(9)]
    length, gain = best(FLAT, 0.8)
    assert (length, gain) == (gains.index(max(gains)), pytest.approx(max(gains), rel=1e-3))


def test_no_drafts_pay_where_each_token_costs_as_much_as_one():
    assert best(STEEP, 0.9) == (0, 1.0)
    assert list(describe(Calibration(STEEP)))[1] == "drafts from the text itself: none pay"


def test_a_proposer_that_takes_time_drafts_less():
    free, priced = best(FLAT, 0.8), best(FLAT, 0.8, {1: 0.002, 4: 0.008})
    assert priced[0] < free[0]
    assert priced[1] < free[1]
    [_, _, line] = describe(Calibration(FLAT, {"mtp": {1: 0.002, 4: 0.008}}))
    assert line.startswith("drafts from the model's own drafting head: 2 tokens if 60% of them")


def test_the_doctor_tells_which_drafts_pay_for_the_models_that_were_measured_last(capsys):
    kept_calibrations.keep("old", Calibration(FLAT))  # of a version that kept no names
    kept_calibrations.keep("new", Calibration(STEEP), "small.gguf")
    assert run(["doctor"]) == 0
    assert "small.gguf" not in capsys.readouterr().out
    assert run(["doctor", "--details"]) == 0
    out = capsys.readouterr().out
    assert "drafts     small.gguf: checking 2 tokens 2.0, 4 tokens 4.0, 8 tokens 8.0 times" in out
    assert "drafts from the text itself: none pay" in out
