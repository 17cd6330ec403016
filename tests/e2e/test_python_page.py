"""The recipes of docs/python.md, and the one of the README, each run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import STARTER

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "python.md"
BLOCK = re.compile(r"^## (\d+\. .+?)$|^```python\n(.*?)^```$", re.M | re.S)


@pytest.fixture(scope="module")
def printed():
    """Run all recipes in order; return what each printed, by its title."""
    lines, title = {"": []}, ""
    names = {"print": lambda *values, **_: lines[title].append(" ".join(map(str, values)))}
    for heading, code in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        title = heading or title
        lines.setdefault(title, [])
        if code:
            exec(compile(code, f"{PAGE.name}, {title}", "exec"), names)
    return {title.partition(". ")[2]: said for title, said in lines.items()}


@pytest.mark.long  # they load the starter model, and decode some hundred tokens
def test_there_are_ten_and_each_prints_something(printed):
    assert len(printed) == 11  # with what comes before them
    assert all(printed.values())
    assert f"{STARTER}" in PAGE.read_text()


@pytest.mark.long
def test_what_comments_and_texts_say_of_them_is_so(printed):
    assert printed[""][0].startswith("<Runtime of SmolLM2-135M")
    assert "stop" in printed["Chat"][0] or "length" in printed["Chat"][0]
    assert printed["Stream"][-1].startswith("Timings(")
    assert printed["Tools"][0].startswith("get_weather {'city': ")
    assert len(printed["Many at once"]) == 3
    assert printed["Cancel"][0].startswith("cancelled ")
    assert printed["Seeds"][0].endswith("True")
    assert len(printed["Log-probabilities"]) in (1, 2, 3)
    assert float(printed["A draft model"][0]) > 0.9
    assert printed["What speculation did"][-1] == "0"


def test_the_readme_answers_from_python(capsys):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [code] = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    exec(compile(code, "README.md", "exec"), {})
    assert "{'target': " in capsys.readouterr().out
