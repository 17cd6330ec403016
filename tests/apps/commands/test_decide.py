"""`localspec decide`: columns of answers for the lines of a file."""

from __future__ import annotations

import csv
import json

import pytest

from localspec import Question
from localspec.apps.command_line import run
from localspec.apps.commands.right_answers import option_of
from tests import engines

TEAMS = {"billing": "money", "other": None}
QUESTIONS = {
    "urgent": {"type": "noul", "instructions": "Urgent?", "criteria": {"true": "today"}},
    "team": {
        "type": "choice",
        "instructions": "Who?",
        "criteria": {"billing": "money", "other": None},
    },
    "tone": {"type": "score", "criteria": ["calm", "furious"]},
}
COLUMNS = ["urgent", "team", "team_confidence", "tone", "tone_confidence"]


@pytest.fixture
def written(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def decide(questions, file, *arguments):
    model = str(engines.tiny("llama"))
    fixed = ["--threads", "1", "--context", "1024"]
    return run(["decide", model, str(questions), str(file), *fixed, *map(str, arguments)])


def test_a_table_gets_columns(written, tmp_path, capsys):
    questions = written("questions.json", QUESTIONS)
    states = written("states.csv", 'id,text\n1,"pay me, please"\n2,"two\nlines"\n')
    out = tmp_path / "out.csv"
    assert decide(questions, states, "--column", "text", "--out", out) == 0, capsys.readouterr().err
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "text", *COLUMNS]
    assert [row["text"] for row in rows] == ["pay me, please", "two\nlines"]
    assert all(0 < float(row["urgent"]) < 1 for row in rows)
    assert {row["team"] for row in rows} <= {"billing", "other"}
    assert rows[0]["urgent"] != rows[1]["urgent"]
    assert decide(questions, out, "--out", out) == 2
    assert "is the file that is read" in capsys.readouterr().err


def test_json_lines_get_answers(written, capsys):
    questions = written("questions.json", {"tone": QUESTIONS["tone"]})
    states = written("states.jsonl", '"one\u2028state"\n\n{"a": [1]}\n')
    assert decide(questions, states, "--permutations", "2") == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.split("\n")[:-1]]
    assert [line["state"] for line in shown] == ["one\u2028state", {"a": [1]}]
    assert shown[0]["answers"].keys() == {"tone", "tone_confidence"}


@pytest.mark.parametrize(
    ("questions", "name", "states", "message"),
    [
        ("{", "s.csv", "a\n1\n", "questions.json is not JSON"),
        ({}, "s.csv", "a\n1\n", "has no questions"),
        ({"q": {"type": "box"}}, "s.csv", "a\n1\n", "question 'q' has the type 'box'"),
        (
            {"q": {"type": "noul", "criteria": "Is it?"}},
            "s.csv",
            "a\n1\n",
            "of noul they must",
        ),
        ({"q": {"type": "noul", "question": "?"}}, "s.csv", "a\n1\n", "it needs instructions"),
        ({"q": {"type": "score", "criteria": []}}, "s.csv", "a\n1\n", "a score has 0 options"),
        (QUESTIONS, "s.txt", "a\n1\n", "must end in .csv or .jsonl"),
        (QUESTIONS, "s.csv", "a\n", "there is no state in"),
        (QUESTIONS, "s.csv", "a\n1,2\n", "line 2 has more than 1 cells"),
        (QUESTIONS, "s.jsonl", "{}\n{\n", "s.jsonl, line 2 is not JSON"),
        (QUESTIONS, "s.csv", "a\n1\n", "state 1 has no 'text'"),
    ],
)
def test_files_without_sense_are_refused_before_a_model_is_loaded(
    written, capsys, questions, name, states, message
):
    paths = written("questions.json", questions), written(name, states)
    assert decide(*paths, "--column", "text") == 2
    assert message in capsys.readouterr().err


def test_a_field_that_a_question_does_not_have_is_told(written, capsys):
    misread = {**QUESTIONS["tone"], "question": "How upset?"}
    paths = written("questions.json", {"tone": misread}), written("states.jsonl", '"one"\n')
    assert decide(*paths) == 0
    assert "question 'tone' has 'question', which changes nothing" in capsys.readouterr().err


LABELLED = "text,urgent,team,tone\n" + "".join(
    f"the sea {at},{('yes', 'No', 'true')[at % 3]},{('other', 'billing')[at % 2]},\n"
    for at in range(18)
)


def test_answers_are_compared_with_right_ones_and_calibrated_by_them(written, capsys):
    questions, states = written("questions.json", QUESTIONS), written("states.csv", LABELLED)
    assert decide(questions, states, "--column", "text", "--evaluate") == 0, capsys.readouterr().err
    plain = capsys.readouterr().out.splitlines()
    assert plain[0].split() == ["answers", "right", "Brier", "score", "log", "loss"]
    counts = [line.split()[:2] for line in plain[1:]]
    assert counts == [["urgent", "18"], ["team", "18"], ["all", "36"]]
    assert decide(questions, states, "--column", "text", "--calibrate") == 0, (
        capsys.readouterr().err
    )
    *table, urgent, team = capsys.readouterr().out.splitlines()
    assert table == plain
    assert urgent.startswith(
        "predicate: a temperature fitted to the other half of 18 answers makes"
    )
    assert team.startswith("choice: ")
    assert "10 is kept" in [line.rpartition(": ")[2] for line in (urgent, team)]
    assert decide(questions, states, "--column", "text", "--evaluate") == 0
    shown = capsys.readouterr()
    losses = [float(lines[-1].split()[-1]) for lines in (shown.out.splitlines(), plain)]
    assert losses[0] < losses[1]  # by the temperature that was kept
    assert "answers are calibrated: " in shown.err
    assert run(["forget"]) == 0
    assert "removed the temperatures of 1 model" in capsys.readouterr().out


def test_a_model_is_not_shown_the_right_answers(written, capsys):
    questions = written("questions.json", {"team": QUESTIONS["team"]})
    rows = [{"text": f"{at}", "team": team} for at in range(2) for team in TEAMS]
    whole = "\n".join(map(json.dumps, rows))
    assert decide(questions, written("a.jsonl", whole), "--evaluate") == 0
    losses = capsys.readouterr().out
    rights = "\n".join(json.dumps({"team": row["team"], "text": row["text"]}) for row in rows)
    assert decide(questions, written("b.jsonl", rights), "--evaluate") == 0
    assert capsys.readouterr().out == losses


@pytest.mark.parametrize(
    ("column", "way", "message"),
    [
        ("angry", "--evaluate", "there is no right answer"),
        (
            "urgent",
            "--calibrate",
            "a temperature needs 16 right answers",
        ),
        ("team", "--evaluate", "state 1: team is 'yes'; it must be one of billing, other"),
        ("tone", "--evaluate", "state 1: tone is 'yes'; it must be one of calm, furious"),
    ],
)
def test_right_answers_without_sense_are_refused_before_a_model_is_loaded(
    written, capsys, column, way, message
):
    states = written("states.csv", f"{column}\nyes\nno\nyes\n")
    assert decide(written("questions.json", QUESTIONS), states, way) == 2
    assert message in capsys.readouterr().err


def test_one_right_answer_for_all_states_makes_no_temperature(written, capsys):
    states = written("states.csv", "urgent,team\n" + "yes,billing\nyes,other\n" * 10)
    assert decide(written("questions.json", QUESTIONS), states, "--calibrate") == 2
    assert "all 20 right answers to 'urgent' are 'yes'" in capsys.readouterr().err


@pytest.mark.parametrize(("cell", "level"), [("calm", "calm"), ("1", "furious"), (0, "calm")])
def test_a_level_is_named_by_its_text_or_its_number(cell, level):
    tone = Question.score("How?", ["calm", "furious"])
    assert option_of(tone, cell, "here") == level


def test_a_level_that_is_a_number_is_named_by_that():
    assert option_of(Question.score("How many?", ["1", "0"]), "1", "here") == "1"
