"""The results of a comparison that ends early."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from benchmarks.comparison.asking import TimedReply
from benchmarks.comparison.measure import PeersRun, Volley
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.results import Results, answered_by_all
from benchmarks.comparison.sides import Side

SIDES = [Side(name, "llama-server") for name in ("llama-server", "ngram-mod")]
SETTING = Setting("a setting", 1, 0.0, 2048, [(), (), ()])
PLACES = [(number, at, side.name) for number in range(2) for at in range(3) for side in SIDES]


def volleys(count):
    reply = TimedReply("edit", "a", 11, 20, 5, 0.1, 1, 1.0, (0.1,))
    return [Volley(side, number, at, 2.0, [reply]) for number, at, side in islice(PLACES, count)]


class Interrupted(PeersRun):
    """A run that is interrupted behind its first eight turns."""

    def measure(self, setting):
        yield from volleys(8)
        raise KeyboardInterrupt


def test_what_all_sides_have_answered_is_kept_when_a_run_is_interrupted(tmp_path, capsys):
    results = Results({"model": "m.gguf"}, tmp_path / "all.json", tmp_path / "all.svg")
    with pytest.raises(KeyboardInterrupt):
        results.measure(Interrupted(SIDES, None, 2, 8, True), SETTING)
    assert "| ngram-mod | 10.0 | 1.00 |" in capsys.readouterr().out
    [setting] = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))["settings"]
    assert len(setting["volleys"]) == 6
    assert (tmp_path / "all.svg").exists()


@pytest.mark.parametrize(
    ("turns", "kept"),
    [(1, 0), (2, 2), (3, 2), (5, 4), (6, 6), (11, 6), (12, 12)],
)
def test_rounds_are_kept_whole_and_of_the_first_one_whole_sections(turns, kept):
    assert len(answered_by_all(volleys(turns), 2)) == kept


def test_a_long_run_says_how_far_it_is(capsys):
    results = Results({"model": "m.gguf"}, None, None)
    with pytest.raises(KeyboardInterrupt):
        results.measure(Interrupted(SIDES, None, 2, 8, True), SETTING)
    assert "a setting: 8 of 12 turns, ngram-mod" in capsys.readouterr().err
