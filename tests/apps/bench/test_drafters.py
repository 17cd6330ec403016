"""Several drafters: who is fastest, by how much, and when nobody is chosen."""

from __future__ import annotations

from dataclasses import replace

from localspec.apps.bench.drafters import rank
from localspec.apps.bench.report import Report
from localspec.apps.bench.setup import Setup
from localspec.apps.bench.timed_run import Outcome
from tests.apps.bench.invented import CROWD, PLAIN_ROUND, QUIET, plain, prompt, reply

MODES = ("plain", "auto", "plain again")


def trial(number, seconds, tokens=None, text="a b c"):
    """A prompt answered plainly, and with drafts at so many seconds for each of 40 tokens."""
    asked = prompt("chat", number)
    drafted = reply("auto", *[replace(PLAIN_ROUND, seconds=seconds)] * 40, asked=asked)
    replies = [*plain(*[PLAIN_ROUND] * 40, asked=asked), replace(drafted, text=text)]
    if tokens:
        replies[-1] = replace(replies[-1], tokens=tokens)
    return {one.mode: one for one in replies}


def measured(seconds, load=QUIET, prompts=4, **fields):
    trials = tuple(trial(number, seconds, **fields) for number in range(prompts))
    return Report(Setup((), MODES), Outcome((), load), trials, None, (), {})


def test_the_fastest_drafter_is_chosen_and_compared_with_the_second():
    ranking = rank({"a": measured(0.008), "b": measured(0.005), "none": measured(0.0095)})
    assert [standing.name for standing in ranking.standings] == ["b", "a", "none"]
    assert ranking.chosen.name == "b"
    assert ranking.text.startswith("The fastest is b: 2.00 times plain, 1.60 ± ")
    assert ranking.text.endswith("times as fast as a. All texts are those of plain decoding.")
    assert "no draft model  1.05 ± " in str(ranking)


def test_a_drafter_that_is_not_measurably_faster_is_not_worth_its_memory():
    ranking = rank({"a": measured(0.00799), "none": measured(0.008)})
    assert ranking.chosen.name == "none"
    assert "a is not measurably faster than no draft model" in ranking.text
    alone = rank({"a": measured(0.0101), "b": measured(0.012)})
    assert alone.chosen is None
    assert "None is measurably faster than plain; the best is a." in alone.text


def test_no_draft_model_is_chosen_where_it_is_fastest():
    ranking = rank({"a": measured(0.012), "none": measured(0.011)})
    assert ranking.chosen.name == "none"
    assert ranking.text.startswith("The fastest is no draft model: 0.91 times plain")


def test_nothing_is_chosen_on_a_busy_machine():
    ranking = rank({"a": measured(0.005), "b": measured(0.008, CROWD)})
    assert ranking.standings[0].name == "a"
    assert ranking.chosen is None
    assert ranking.text.endswith("The machine was busy: repeat it.")


def test_only_prompts_that_all_answered_count():
    fast = measured(0.005)
    slow = measured(0.02, prompts=2)
    ranking = rank({"a": fast, "b": slow})
    assert [standing.replies for standing in ranking.standings] == [2, 2]
    nobody = rank({"a": fast, "b": replace(slow, trials=())})
    assert (nobody.chosen, nobody.standings) == (None, ())
    assert "no prompt" in nobody.text.lower()


def test_a_loop_of_one_drafter_counts_for_none():
    looping = trial(3, 0.001, text="over and over, " * 8)
    fast = replace(measured(0.005), trials=(*measured(0.005, prompts=3).trials, looping))
    ranking = rank({"a": fast, "b": measured(0.008)})
    assert [standing.replies for standing in ranking.standings] == [3, 3]
    assert round(ranking.chosen.ratio.value, 2) == 2.0


def test_texts_that_differ_are_counted_and_said():
    ranking = rank({"a": measured(0.005, tokens=(7, 7)), "b": measured(0.008)})
    assert [standing.same for standing in ranking.standings] == [0, 4]
    assert "Some texts differ at near-ties." in ranking.text
