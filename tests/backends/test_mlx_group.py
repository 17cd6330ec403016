"""One MLX model on several processes says what it says in one."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import httpx
import psutil
import pytest

from localspec.apps.command_line import run
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Options, Row
from tests import engines

if not engines.MLX:
    pytest.skip("there is no MLX for this system", allow_module_level=True)

from localspec_mlx.group import load_request, packed, read_request, unpacked
from tests import tiny_mlx
from tests.worker_process import Told

pytestmark = pytest.mark.long

ASK = ["The river runs", "--raw", "--temperature", "0", "--max-tokens", "16", "--json"]


@pytest.mark.parametrize(
    ("architecture", "heads"),
    [("qwen3_moe", 2), ("qwen3_moe", 1)],
    ids=["divided by heads", "divided by layers"],
)
def test_two_processes_say_what_one_says(architecture, heads, tmp_path, capsys):
    folder = tiny_mlx.write(tmp_path / "model", architecture, num_key_value_heads=heads)
    assert run(["generate", str(folder), *ASK]) == 0
    alone = json.loads(capsys.readouterr().out)
    group = [sys.executable, "-m", "localspec", "launch-group", "--each", "2"]
    result = subprocess.run(
        [*group, "generate", str(folder), *ASK, "--depth", "3"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    together = json.loads(result.stdout)
    assert together["tokens"] == alone["tokens"]
    assert together["speculation"]["rounds"] > 0


def test_rows_and_wishes_are_told_as_numbers(tmp_path):
    rows = [
        Row(3, tokens_of([5, 6, 7]), outputs=2, tentative=1),
        Row(0, tokens_of([9])),
    ]
    again = unpacked(packed(rows))
    assert [(row.slot, row.outputs, row.tentative) for row in again] == [(3, 2, 1), (0, 1, 0)]
    assert [row.tokens.tolist() for row in again] == [[5, 6, 7], [9]]
    options = Options(slots=4, context=128, kv_type="q8_0", members=3)
    assert read_request(load_request(tmp_path, options)) == (tmp_path, options)


def test_a_process_outside_of_a_group_says_so(tmp_path, monkeypatch, capsys):
    folder = tiny_mlx.write(tmp_path / "model", "qwen3_moe")
    monkeypatch.setenv("LOCALSPEC_GROUP", "2")
    assert run(["generate", str(folder), *ASK]) == 2
    assert "localspec launch-group" in capsys.readouterr().err


def test_a_group_of_one_is_refused(capsys):
    assert run(["launch-group", "serve", "any"]) == 2
    assert "at least two processes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "told"),
    [("2", "one process only"), ("many", "sets it to a number"), ("0", "a number")],
)
def test_an_engine_that_cannot_be_divided_is_not_left_to_run_alone(said, told, monkeypatch, capsys):
    monkeypatch.setenv("LOCALSPEC_GROUP", said)
    assert run(["generate", str(engines.tiny("llama")), *ASK]) == 2
    assert told in capsys.readouterr().err


def members(launched: int, rank: str) -> list[psutil.Process]:
    """Find the process of a group that has this rank."""
    started = psutil.Process(launched).children(recursive=True)
    return [
        each for each in started if not each.children() and each.environ().get("MLX_RANK") == rank
    ]


def read_until_lost(base: str, member: psutil.Process) -> None:
    """Read a reply, and kill a member after four lines: it must end within five seconds."""
    asked = {"prompt": "The river", "max_tokens": 4000, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{base}/v1/completions", json=asked, timeout=60) as reply:
        lines = reply.iter_lines()
        for _ in range(4):
            next(lines)
        member.kill()
        begun = time.monotonic()
        try:
            list(lines)
        finally:
            assert time.monotonic() - begun < 5


def test_requests_end_where_a_member_is_lost(tmp_path):
    folder = tiny_mlx.write(tmp_path / "model", "qwen3_moe", num_key_value_heads=2)
    command = ["launch-group", "--each", "2", "serve", str(folder), "--port", "0"]
    command += ["--cache-dir", str(tmp_path / "cache")]
    server = Told([*command, "--depth", "0", "--proposer", "none", "--slots", "1"])
    try:
        server.wait_for("divided among processes keeps no prompts in --cache-dir")
        base = server.wait_for(r"answering at (\S+)/v1")[1]
        [member] = members(server.process.pid, rank="1")
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):  # not of waiting
            read_until_lost(base, member)
    finally:
        server.kill()
