"""The recipes of docs/cookbook.md, each run as it stands there, but for the server's port."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long  # it decodes some hundred tokens of a real model
PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
BLOCK = re.compile(r"^## (.+?)$|^```(python|sh)\n(.*?)^```$", re.M | re.S)
ADDRESS = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Serve as the page says, at a free port."""
    text = PAGE.read_text(encoding="utf-8")
    [arguments] = re.findall(r"Start a server once: `localspec (serve \S+)`", text)
    command = [sys.executable, "-m", "localspec", *arguments.split(), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stderr if "answering at" in line)
            yield re.search(r"answering at (\S+)/v1", line)[1]
        finally:
            process.terminate()
            process.stderr.read()


@pytest.fixture(scope="module")
def printed(address) -> dict[str, str]:
    """Run the recipes that ask the server; return what each printed, by its title."""
    title, printed = "", {}

    def show(*values: object, **_: object) -> None:
        printed[title] = printed.get(title, "") + " ".join(map(str, values))

    names: dict[str, object] = {"print": show}
    for heading, language, code in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        title = heading or title
        code = code.replace(ADDRESS, address)
        if code.startswith("curl"):
            done = subprocess.run(code, shell=True, capture_output=True, text=True, check=True)
            show(done.stdout)
        elif language == "python":
            exec(compile(code, f"{PAGE.name}, {title}", "exec"), names)
    for name in ("client", "claude"):
        names[name].close()
    return printed


def test_there_are_ten_recipes_and_each_that_asks_gets_an_answer(printed):
    titles = re.findall(r"^## (\d+)\. .+$", PAGE.read_text(encoding="utf-8"), re.M)
    assert titles == [str(number) for number in range(1, 11)]
    assert len(printed) == 6  # with what comes before them
    assert all(printed.values())


def test_recipes_get_what_they_say(printed):
    answer, end = json.JSONDecoder().raw_decode(printed[""])  # of curl, then of two libraries
    assert answer["choices"][0]["message"]["content"]
    assert printed[""][end:].count(" ") > 5
    assert "area" in printed["1. Edit a file fast"]
    assert printed["2. An agent with a local model"].startswith("get_weather {")
    assert printed["4. JSON from invoices"].count("{'number': ") == 2
    assert len(json.loads(printed["5. Many requests"])) == 8
    # Whether drafts pay is measured, so there may be none on a busy machine.
    timings = json.loads(printed["10. Bench it"])["timings"]
    assert timings.keys() >= {"draft_n", "draft_n_accepted", "predicted_per_second"}
