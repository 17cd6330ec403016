"""A confined process that misbehaves is ended, and the next request answered by another."""

from __future__ import annotations

import subprocess
import sys

import pytest

from localspec.base.confined import process
from localspec.base.confined.process import ConfinedProcess, Unanswered

SCRIPT = """
import os, sys, time
def respond(request, data):
    if request: exec(request)
    return [request, None], data[::-1]
"""
FAULTS = {
    "garbage": "print('[1, 2, 3, 4]', flush=True)",
    "deep garbage": "print('[' * 100_000, flush=True)",
    "half an answer": "os.write(1, b'[1, 9, 0.0]\\n123'); os._exit(0)",
    "more than it may have": "os.write(1, b'[1, 999999999999, 0.0]\\n')",
    "less than nothing": "os.write(1, b'[1, -1, 0.0]\\n')",
    "an error": "1 / 0",
    "its end": "os.kill(os.getpid(), 9)",
    "work": "while True: pass",
    "memory": "kept = [bytearray(1 << 24) for _ in iter(int, 1)]",
}


@pytest.fixture
def confined(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    confined = ConfinedProcess(script, 0.5, 1 << 28)
    yield confined
    confined.close()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_process_that_misbehaves_is_replaced(fault, confined):
    with pytest.raises(Unanswered, match=r"within 0\.5 seconds and 256 MiB") as unanswered:
        confined.ask(fault)
    assert unanswered.value.code is not None
    assert confined.ask("", b"abc")[:2] == (["", None], b"cba")


def test_a_process_that_does_nothing_is_ended_in_the_end(confined, monkeypatch):
    monkeypatch.setattr(process, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(process, "PATIENCE", 0.0)
    with pytest.raises(Unanswered, match="in 1 seconds on a busy machine") as unanswered:
        confined.ask("time.sleep(60)")
    assert unanswered.value.code is None
    assert confined.ask("", b"abc").data == b"cba"


def test_a_process_whose_program_was_ended_complains_of_nothing(tmp_path):
    """The log of a server that begins anew had a trace of each of them."""
    (tmp_path / "script.py").write_text("def respond(request, data): return [], b''")
    command = [sys.executable, "-P", str(process.CHILD), str(tmp_path / "script.py"), "5"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        child.stdout.close()
        child.stdin.write(b"[0, 0]\n")
        child.stdin.close()
        assert child.stderr.read() == b""
