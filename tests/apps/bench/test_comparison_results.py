"""The results of a comparison that ends early."""

from __future__ import annotations

import json
from itertools import islice

import pytest

from benchmarks.comparison import against
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
    results = Results({"model": "m.gguf"}, tmp_path / "all.json")
    with pytest.raises(KeyboardInterrupt):
        results.measure(Interrupted(SIDES, None, 2, 8, True), SETTING)
    assert "| ngram-mod | 10.0 | 1.00 |" in capsys.readouterr().out
    [setting] = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))["settings"]
    assert len(setting["volleys"]) == 6


@pytest.mark.parametrize(
    ("turns", "kept"),
    [(1, 0), (2, 2), (3, 2), (5, 4), (6, 6), (11, 6), (12, 12)],
)
def test_rounds_are_kept_whole_and_of_the_first_one_whole_sections(turns, kept):
    assert len(answered_by_all(volleys(turns), 2)) == kept


def test_a_long_run_says_how_far_it_is(capsys):
    results = Results({"model": "m.gguf"}, None)
    with pytest.raises(KeyboardInterrupt):
        results.measure(Interrupted(SIDES, None, 2, 8, True), SETTING)
    assert "a setting: 8 of 12 turns, ngram-mod" in capsys.readouterr().err


def run_of(ratio, noise=0.02, **other):
    figures = [
        {"side": side, "category": "all", "speed_ratio": value, "noise": noise}
        for side, value in (("llama-server", 1.0), ("localspec", ratio))
    ]
    facts = dict.fromkeys(against.SAME, "the same")
    sides = {"llama-server": ["llama-server"], "localspec": ["localspec"]}
    settings = [{"setting": "one stream, T=0", "figures": figures}]
    return {**facts, "sides": sides, "settings": settings, **other}


@pytest.mark.parametrize(("now", "fell"), [(1.2, False), (1.14, False), (1.0, True), (1.5, False)])
def test_a_ratio_falls_that_is_lower_than_before_by_more_than_the_noise_of_both(now, fell):
    lines, any_fell = against.compare(run_of(1.2), run_of(now))
    assert any_fell == fell
    assert f"localspec beside llama-server, one stream, T=0: {now:.3f}, before 1.200" in lines[0]
    assert lines[0].endswith("FELL") == fell


def test_runs_of_other_machines_or_of_one_round_are_not_compared():
    lines, fell = against.compare(run_of(1.2), run_of(1.0, machine="another"))
    assert not fell
    assert "machine is 'another', it was 'the same'" in lines[0]
    lines, fell = against.compare(run_of(1.2, noise=None), run_of(1.0, noise=None))
    assert not fell
    assert "Nothing to compare" in lines[0]


def test_a_file_that_is_no_run_is_refused_before_anything_is_measured(tmp_path):
    file = tmp_path / "run.json"
    for text in ("{", "[]", '{"settings": []}'):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SystemExit, match="is no run of"):
            against.read(file)
    file.write_text(json.dumps(run_of(1.2)), encoding="utf-8")
    assert against.read(file)["settings"]


def test_what_a_run_writes_is_what_a_later_one_reads(tmp_path):
    about = dict.fromkeys(against.SAME, "the same")
    sides = {"llama-server": ["llama-server"], "ngram-mod": ["localspec"]}
    results = Results({**about, "sides": sides, "model": "m.gguf"}, tmp_path / "all.json")
    results.conclude(SETTING, volleys(12), {})
    assert against.read(tmp_path / "all.json")["settings"][0]["setting"] == "a setting"
    [line], fell = against.compare(results.run, results.run)
    assert "ngram-mod beside llama-server, a setting: 1.000, before 1.000" in line
    assert not fell
