"""`localspec decide`: columns of answers for the lines of a file."""

from __future__ import annotations

import csv
import json

import pytest

from localspec.apps.command_line import run
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
