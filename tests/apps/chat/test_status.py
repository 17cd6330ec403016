"""The figures of answers, also where there is little room."""

from __future__ import annotations

import pytest
from rich.console import Console

from localspec.apps.chat.hearing import HeardAnswer
from localspec.apps.chat.status import BARS, WIDTH, explain, sparkline, statistics, status
from localspec.console.speakers.speaker import AnswerFigures, AnswerRound, Ended
from localspec.core.requests.figures import TARGET, PositionCounts

FIGURES = AnswerFigures(
    tokens=1200,
    prompt=300,
    cached=100,
    first_seconds=0.5,
    per_second=40.0,
    speedup=2.0,
    rounds=500,
    drafted=900,
    accepted=700,
    by_source={TARGET: 500, "ngram": 600, "suffix": 100},
    guesses={
        "ngram": (PositionCounts(500, 400), PositionCounts(200, 150)),
        "suffix": (PositionCounts(0, 0),),
    },
)


def shown(width: int, heard: list[HeardAnswer]) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        for each in statistics(heard):
            console.print(each)
    return [line.rstrip() for line in captured.get().splitlines()]


def test_the_line_under_an_answer_says_its_length_and_speed_and_no_more():
    assert status(Ended("stop", FIGURES)) == "1,200 tokens · 40.0 tokens/s (2.0x plain)"
    line = status(Ended("length", FIGURES), ("temperature 1.5", "/why"))
    assert line.endswith(" (2.0x plain) · length limit reached · temperature 1.5 · /why")


@pytest.mark.parametrize(
    ("finish", "tokens", "said"),
    [
        ("stop", 0, "0 tokens"),
        ("stop", 1, "1 token"),
        ("length", 2, "2 tokens · length limit reached"),
        ("cancelled", 0, "0 tokens · stopped"),
    ],
)
def test_of_what_is_not_known_nothing_is_said(finish, tokens, said):
    assert status(Ended(finish, AnswerFigures(tokens))) == said


def test_a_thought_that_was_cut_is_told_of():
    figures = AnswerFigures(tokens=9, thought=4, thoughts_cut=1)
    assert status(Ended("stop", figures)) == "9 tokens · thought cut"
    spent = "4 tokens of the answer, and cut: its budget was spent"
    assert dict(explain(figures, 0))["thought"] == spent
    assert (
        dict(explain(AnswerFigures(tokens=9, thought=1), 0))["thought"] == "1 token of the answer"
    )


def test_an_answer_without_drafts_is_not_compared_with_itself():
    figures = AnswerFigures(tokens=5, per_second=2.0, speedup=1.0)
    assert status(Ended("stop", figures)) == "5 tokens · 2.0 tokens/s"


def test_the_figures_are_told_in_words():
    assert dict(explain(FIGURES, 8192)) == {
        "first token": "after 0.50 s",
        "then": "40.0 tokens a second",
        "with drafts": "2.00 times as fast as without, by estimate",
        "drafted": "900 tokens guessed ahead in 500 rounds: 2.4 tokens a round",
        "accepted": "700 of them, 78%: the model chose the same",
        "  ngram": "600, from the text itself",
        "  suffix": "100, from the text itself",
        "prompt": "300 tokens; 100 were in the cache already",
        "context": "1,500 of 8,192 tokens used, 6,692 left",
    }


def test_figures_that_are_not_known_are_left_out():
    """As of a server that tells no tokens of a prompt whose answer was stopped."""
    stopped = dict(explain(AnswerFigures(tokens=1), 8192))
    assert stopped == {"drafted": "nothing: no token was guessed ahead"}
    by_name = dict(explain(AnswerFigures(tokens=1, prompt=1, drafted=1, accepted=1, rounds=1), 0))
    assert by_name["drafted"] == "1 token guessed ahead in 1 round: 1.0 tokens a round"
    assert by_name["prompt"] == "1 token"
    assert "context" not in by_name


def test_statistics_are_columns_where_there_is_room():
    heard = [HeardAnswer(rounds=[AnswerRound(4, 2, "ngram")] * 3, ended=Ended("stop", FIGURES))]
    assert shown(80, heard) == [
        "answer  tokens  tokens/s  rounds  drafted  accepted  read  known",
        "     1   1,200      40.0     500      900       700   200    100",
        "",
        "accepted by position    1    2",
        "ngram                 80%  75%",
        "suffix                  -    -",
        "",
        "drafted tokens a round in the last answer, up to 4:",
        "███",
    ]


def test_statistics_are_lines_where_there_is_none():
    lines = shown(20, [HeardAnswer(ended=Ended("stop", FIGURES))])
    assert all(len(line) <= 20 for line in lines)
    assert " ".join(lines[:6]).startswith("answer 1, tokens 1,200, tokens/s 40.0, rounds 500,")
    assert "accepted by position ngram, 1 80%, 2 75%" in " ".join(lines)


def test_an_answer_that_failed_has_a_line_too():
    assert shown(80, [HeardAnswer()])[1].split() == ["1", "0", "-", "0", "0", "0", "0", "0"]


def test_the_sparkline_shows_how_much_was_drafted_in_at_most_so_many_characters():
    rounds = [AnswerRound(at % 9, 0, "ngram") for at in range(9)]
    assert sparkline(rounds) == BARS
    assert sparkline([]) == sparkline([AnswerRound(0, 0, "")]) == ""
    assert len(sparkline(rounds * 100)) <= WIDTH
    assert {*sparkline([AnswerRound(1, 0, "ngram"), AnswerRound(1000, 0, "ngram")])} == {"▁", "█"}
