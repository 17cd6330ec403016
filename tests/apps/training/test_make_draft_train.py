"""`make-draft --train` from end to end on tiny models, killed and gone on with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from localspec.running.models import engines as installed
from tests import engines

# At low priority beside other tests it takes long; with two processors of its own, a minute.
pytestmark = [pytest.mark.train, pytest.mark.timeout(1200)]

BUDGET = "40s"  # of work in all: 10 of them are for the verdict
ENDS = {
    "the model writes": signal.SIGKILL,
    "the model reads": signal.SIGKILL,
    "the head learns": signal.SIGINT,
}


def command(model, *options):
    words = ["make-draft", str(model), "--train", "--budget", BUDGET, *options]
    return [sys.executable, "-u", "-m", "localspec", *words]


@pytest.fixture
def home(tmp_path):
    folders = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    return {**os.environ, **{name: str(tmp_path / name) for name in folders}}


def ended_at(words, phase, number, home):
    """Run until a phase has begun, and send a signal as a terminal does; return all it wrote."""
    with subprocess.Popen(
        words,
        env=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if phase in line:
                # Ctrl-C reaches all processes; one that is killed takes the other along.
                (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
                break
        assert phase in "".join(lines[-1:]), "".join(lines)
        return "".join((*lines, *process.stdout))


def model_of(engine):
    if engine == "llamacpp":
        return engines.tiny("llama")
    if engine not in map(str, installed.all_engines()):
        pytest.skip(f"{engine} is not for this system")
    return engines.tiny_folder("qwen3")


@pytest.mark.parametrize("engine", ["llamacpp", "mlx"])
def test_a_training_that_is_killed_in_each_phase_comes_to_its_verdict(engine, home, tmp_path):
    words = command(model_of(engine))
    for phase, number in ENDS.items():
        printed = ended_at(words, phase, number, home)
    assert "it goes on" in printed
    assert "stopped: the same command goes on from here\n" in printed
    for _ in range(12):  # a busy machine may show no verdict
        done = subprocess.run(words, env=home, capture_output=True, text=True)
        if "there is no verdict" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    assert re.search(r"trained for [\d,]+ steps on \d+ texts", done.stdout)
    assert re.search(r"[Tt]he trained head", done.stdout)
    [place] = tmp_path.rglob("eagle3-*.json" if "from now on" in done.stdout else "record.json")
    record = json.loads(place.read_text())
    assert record["verdict"]["drafter_pays"] is ("from now on" in done.stdout)
    assert record["texts"]["written"] >= 16
    assert record["held_out"] >= 1
    assert record["steps"] >= 1
