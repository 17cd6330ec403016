"""The figures of answers, also where there is little room."""

from __future__ import annotations

import pytest
from rich.console import Console

from localspec.chat.hearing import HeardAnswer
from localspec.chat.speakers.speaker import AnswerFigures, AnswerRound, Ended
from localspec.chat.status import BARS, WIDTH, sparkline, statistics, status
from localspec.engine.figures import TARGET, PositionCounts

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


def test_the_line_under_an_answer_says_what_it_took_and_what_was_saved():
    assert status(Ended("stop", FIGURES), 8192) == (
        "1,200 tokens, 40.0 tokens/s, about 2.00x plain, 1.40 accepted a round "
        "(ngram 600 and suffix 100), first after 0.50 s, context 1,500 of 8,192"
    )


@pytest.mark.parametrize(
    ("finish", "said"),
    [
        ("stop", "0 tokens"),
        ("length", "0 tokens, cut at its length"),
        ("cancelled", "0 tokens, stopped"),
    ],
)
def test_of_what_is_not_known_nothing_is_said(finish, said):
    assert status(Ended(finish, AnswerFigures())) == said


def test_guesses_without_rounds_are_no_rate():
    assert status(Ended("stop", AnswerFigures(drafted=3))) == "0 tokens"


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
