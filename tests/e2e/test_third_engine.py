"""An engine of somebody else's, found by its entry point alone, through the whole command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.running.pulling.fake_hub import FakeHub

TOY = Path(__file__).parents[1] / "toy" / "localspec_toy"
TEXT = "The parrot says what it was told, and nothing else. "
SEVERAL = """\
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from localspec.apps.command_line import run
found = []
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    found.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(found))
"""


class Home:
    """A user's home where the engine is installed, as pip would lay it out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls = path / "calls"
        site = path / "site"
        shutil.copytree(TOY, site / "localspec_toy", ignore=shutil.ignore_patterns("__pycache__"))
        about = site / "localspec_toy-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: localspec-toy\nVersion: 1.0\n"
        )
        (about / "entry_points.txt").write_text("[localspec.backends]\ntoy = localspec_toy\n")
        self.model = path / "parrot.toy"
        self.model.write_text(f"TOY Parrot 512\n{TEXT}")
        self.environment = os.environ | {
            "PYTHONPATH": str(site),
            "XDG_DATA_HOME": str(path / "data"),
            "XDG_CONFIG_HOME": str(path / "config"),
            "XDG_CACHE_HOME": str(path / "cache"),
            "LOCALSPEC_TOY_CALLS": str(self.calls),
        }

    def run(self, *commands: list[str]) -> list[tuple[int, str, str]]:
        """Run commands one after the other, in one process; their exit status and output."""
        done = subprocess.run(
            [sys.executable, "-c", SEVERAL, json.dumps(commands)],
            env=self.environment,
            input="",
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return [tuple(each) for each in json.loads(done.stdout)]

    @contextmanager
    def serving(self, model: str) -> Iterator[httpx.Client]:
        process = subprocess.Popen(
            [sys.executable, "-m", "localspec", "serve", model, "--port", "0"],
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr
            first = next(line for line in process.stderr if "answering at" in line)
            with httpx.Client(base_url=first.split()[-1].removesuffix("/v1"), timeout=60) as client:
                yield client
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)

    def counted(self) -> Counter[str]:
        """What the engine was asked since the last time, but for what trials ask of it."""
        asked = [line.split() for line in self.calls.read_text().splitlines()]
        self.calls.unlink()
        return Counter(call for process, call in asked if process == asked[0][0])


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    made = FakeHub()
    yield made
    made.close()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Home:
    return Home(tmp_path_factory.mktemp("toy"))


@pytest.mark.long
def test_it_is_told_of_planned_run_and_measured_by_path_and_by_name(home, tmp_path):
    path, figures = str(home.model), tmp_path / "figures.json"
    broken = tmp_path / "broken.toy"
    broken.write_text("nothing of the kind")
    asked = ["The par", "--raw", "--max-tokens", "200", "--temperature", "0"]
    bench = ["--modes", "plain,suffix:4", "--category", "chat", "--limit", "1"]
    output = home.run(
        ["doctor"],
        ["info", path],
        ["plan", path],
        ["generate", path, *asked],
        ["generate", path, *asked, "--backend", "llamacpp"],
        ["generate", str(broken), *asked],
        ["generate", path, *asked, "--kv-type", "q8_0"],
        ["add", "polly", "--target", path],
        ["list", "--backend", "toy"],
        ["pull", "polly"],
        ["list"],
        ["plan", "polly"],
        ["generate", "polly", *asked, "--json"],
        ["bench", "polly", *bench, "--max-tokens", "8", "--details", "--json", str(figures)],
        ["show", "polly"],
        ["rm", "polly"],
    )
    lines = iter(output)
    code, out, _ = next(lines)
    assert code == 0
    assert "toy        1.0: CPU\n           cpu: toy box, " in out
    code, out, _ = next(lines)
    assert "architecture   parrot\n" in out
    assert "context        512 tokens\n" in out
    code, out, _ = next(lines)
    assert out.startswith("Parrot text, toy\none text of 512 tokens")
    assert next(lines)[:2] == (0, TEXT.removeprefix("The par") + "\n")
    code, _, err = next(lines)
    assert (code, err) == (
        2,
        f"localspec: {path} is for toy; llamacpp takes a GGUF file: omit --backend\n",
    )
    code, _, err = next(lines)
    assert (code, err) == (
        1,
        "localspec: broken.toy does not begin with `TOY name context`\n",
    )
    code, _, err = next(lines)
    assert (code, err) == (
        2,
        "localspec: KV type 'q8_0' is not for toys: omit --kv-type\n",
    )
    assert next(lines)[0] == 0
    code, out, _ = next(lines)
    [row] = [row for row in rows(out) if row.startswith("polly ")]
    assert row == "polly as-given 0 MiB toy none your own file"
    code, out, err = next(lines)
    assert (code, "polly is here: localspec chat polly" in out) == (0, True), err
    assert "polly as-given 1 MiB toy none here" in rows(next(lines)[1])
    assert next(lines)[1].startswith("Parrot text, toy\n")
    code, out, err = next(lines)
    result = json.loads(out)
    assert (code, result["text"]) == (0, TEXT.removeprefix("The par")), err
    assert result["finish_reason"] == "stop"
    code, out, err = next(lines)
    assert code == 0, err
    assert "localspec-toy 1.0" in out
    assert json.loads(figures.read_text())
    assert f"here: as-given for toy, 1 MiB\n  model    {path}\n" in next(lines)[1]
    assert next(lines)[1] == "polly is gone; 0 MiB are free again\n"
    assert home.model.exists()


def rows(table: str) -> list[str]:
    """The rows of a table, whose columns are as wide as what they hold."""
    return [" ".join(line.split()) for line in table.splitlines()]


def test_it_is_served_over_http(home):
    question = {"messages": [{"role": "user", "content": "The par"}], "temperature": 0}
    home.calls.unlink(missing_ok=True)
    with home.serving(str(home.model)) as client:
        # What is offered is inspected before it is loaded.
        once = {"claims": 1, "inspect": 1, "build": 1, "probe": 1, "load": 1}
        assert home.counted() == once
        answer = client.post("/v1/chat/completions", json=question).json()
        [listed] = client.get("/api/tags").json()["models"]
    assert answer["choices"][0]["message"]["content"] == TEXT.removeprefix("The par")
    assert answer["model"] == "parrot"
    assert listed["details"]["format"] == "toy"
    assert listed["details"]["family"] == "parrot"


def test_a_hub_s_repository_is_searched_for_its_format(home, hub):
    hub.put("people/birds", "parrot.toy", home.model.read_bytes())
    hub.put("people/birds", "README.md", b"# birds", large=False)
    home.environment |= {
        "HF_HOME": str(home.path / "hf"),
        "HF_ENDPOINT": hub.address,
        "HF_HUB_OFFLINE": "0",
    }
    pulled, generated = home.run(
        ["pull", "hf:people/birds"], ["generate", "birds", "nothing", "--raw", "--temperature", "0"]
    )
    assert pulled[0] == 0, pulled
    assert "birds is here" in pulled[1]
    assert generated[:2] == (0, " else. \n")


def test_a_model_is_looked_for_looked_at_and_its_machine_asked_once_for_a_load(home):
    path = str(home.model)
    home.calls.unlink(missing_ok=True)
    once = {"claims": 1, "build": 1, "probe": 1, "load": 1}
    home.run(["generate", path, "The", "--raw"])
    assert home.counted() == once
    [result] = home.run(["chat", path, "The"])
    assert result[0] == 0, result
    assert home.counted() == once
    [result] = home.run(["generate", path, "The", "--raw", "--draft", path])
    assert result[0] == 0, result
    asked = home.counted()
    assert (asked["claims"], asked["build"], asked["load"]) == (2, 1, 2)
