"""The starter model in a control group of its own, whose limit is the memory there is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

MB = 1 << 20
LONG = 1500  # tokens: no processor has said them before the limit is lowered
ROOT = Path("/sys/fs/cgroup")
CHILD = """
import json, sys
import localspec
from localspec.base.system import free_memory as host
from localspec.running.runtime import memory_relief
memory_relief.LOOK_SECONDS = 0.0
options = localspec.Options(context=2048, threads=1)
target, draft, count = sys.argv[1:]
try:
    loading = localspec.Loading(options, depth=4)
    with localspec.load(target, draft, loading) as runtime:
        prompt = "Write down the numbers from one to fifty: one, two, three,"
        settings = localspec.Settings(max_tokens=int(count), ignore_end=True)
        stream = runtime.stream(prompt, settings, raw=True)
        for at, chunk in enumerate(stream):
            print(json.dumps({"free": host.memory().free_bytes}), flush=True)
            input()
        result = stream.result
        print(json.dumps({
            "tokens": result.tokens,
            "notices": result.notices,
            "conceded": [each.what for each in runtime.facts.plan.concessions],
            "by": dict(result.speculation.tokens_by_source),
        }), flush=True)
except localspec.LocalSpecError as error:
    print(json.dumps({"error": str(error), "free": host.memory().free_bytes}), flush=True)
"""


class Group:
    """A control group of either version, with nothing in it yet."""

    def __init__(self) -> None:
        old = ROOT / "memory"
        self._folder = (old if old.exists() else ROOT) / f"localspec-{uuid.uuid4().hex[:8]}"
        self._limit = "memory.limit_in_bytes" if old.exists() else "memory.max"
        self._folder.mkdir()
        self.limit(1 << 40)

    def limit(self, count: int) -> None:
        (self._folder / self._limit).write_text(str(count))

    def join(self) -> None:
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        self._folder.rmdir()


@pytest.fixture
def group() -> Iterator[Group]:
    try:
        made = Group()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    made.remove()


class Child:
    """A process in the group that hands on one token after the other, when it is told to.

    The model does not wait for that.
    """

    def __init__(self, group: Group, *files: Path, count: int = 160) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, *map(str, files), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=group.join,
        )

    def hear(self) -> dict:
        line = self.process.stdout.readline()
        assert line, "the process died"
        return json.loads(line)

    def end(self) -> dict:
        """Read the last lines of its output."""
        line = self.hear()
        while "free" in line and "error" not in line:
            self.go_on()
            line = self.hear()
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return line

    def go_on(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def test_a_limit_decides_whether_there_is_a_draft_model(group, q8, q4):
    group.limit(1500 * MB)
    roomy = Child(group, q8, q4).end()
    assert roomy["conceded"] == roomy["notices"] == []
    assert roomy["by"]["draft-model"] > 50
    group.limit(820 * MB)
    tight = Child(group, q8, q4).end()
    assert tight["conceded"] == ["no draft model: prompt lookup drafts instead"]
    assert tight["tokens"] == roomy["tokens"]
    group.limit(500 * MB)
    small = Child(group, q8, q4).end()
    assert "more than there is for it in host memory" in small["error"]
    assert small["free"] > 350 * MB  # no weight was read


def test_a_limit_that_is_lowered_in_mid_text_costs_the_draft_model_only(group, q8, q4):
    group.limit(1500 * MB)
    expected = Child(group, q8, q4, count=LONG).end()
    child = Child(group, q8, q4, count=LONG)
    for _ in range(10):
        free = child.hear()["free"]
        child.go_on()
    group.limit(1500 * MB - free + 200 * MB)
    ending = child.end()
    [notice] = ending["notices"]
    assert notice.startswith("the draft model was put away, prompt lookup drafts instead: ")
    assert ending["tokens"] == expected["tokens"]
    assert ending["by"]["draft-model"] > 0
    assert ending["by"].get("suffix", 0) > 0
