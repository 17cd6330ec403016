"""Coding agents, launched with a server that runs already or one of their own."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from localspec.apps.clients.agents import AGENTS
from localspec.apps.clients.endpoint import Endpoint
from localspec.apps.clients.launch import ServerRequest, choose_context
from localspec.apps.clients.running import endpoint_at, usual_address
from localspec.apps.command_line import run
from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.options import ServingOptions
from localspec.apps.server.safety import Rules
from localspec.base.errors import UsageError
from localspec.base.system import folders
from localspec.running.memory.planner import Limits
from localspec.running.runtime.loading import Loading
from tests import engines
from tests.apps.server.scripted import Server

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the agent is a script with #!")


@pytest.fixture(scope="module")
def server():
    made = Server(policy=ServerPolicy(Rules(keys=("the-key",))))
    yield made
    made.close()


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """A program named claude, in front of all others."""
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable}\n{(Path(__file__).parent / 'agent.py').read_text()}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-another-server")
    monkeypatch.delenv("LOCALSPEC_API_KEY", raising=False)


@POSIX
def test_an_agent_is_told_of_the_server_and_its_exit_code_passed_on(server, agent, capfd):
    attach = ["--attach", server.address, "--key", "the-key"]
    assert run(["launch", "claude", *attach, "--", "-p", "a question", "--", "x"]) == 7
    out, err = capfd.readouterr()
    record = json.loads(out)
    assert record["status"] == 200
    assert record["arguments"] == ["-p", "a question", "--", "x"]
    assert record["told"]["ANTHROPIC_BASE_URL"] == server.address
    assert record["told"]["ANTHROPIC_MODEL"] == "scripted"
    assert record["told"]["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "2048"
    assert int(record["told"]["CLAUDE_STREAM_IDLE_TIMEOUT_MS"]) > 600_000  # a reply may take that
    assert "ANTHROPIC_API_KEY" not in record["told"]
    assert "scripted with 8,192 tokens of context" in err
    assert "need 16,384" in err


@POSIX
def test_a_server_of_its_own_runs_as_long_as_the_agent(agent, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("LOCALSPEC_SERVE_PORT", "1")  # of another server, as its unix socket is
    monkeypatch.setenv("LOCALSPEC_SERVE_UNIX", str(tmp_path / "socket"))
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    model = str(engines.tiny("llama"))
    options = ["--threads", "1", "--proposer", "none", "--context", "600"]
    assert run(["launch", "claude", model, *options]) == 7
    record = json.loads(capfd.readouterr().out)
    assert record["status"] == 200
    assert record["told"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "600"
    assert len(record["told"]["ANTHROPIC_AUTH_TOKEN"]) > 20
    assert {each.pid for each in psutil.Process().children(recursive=True)} <= before


@POSIX
def test_a_server_that_fails_is_told_in_its_own_words(agent, capfd):
    model = str(engines.tiny("llama"))
    assert run(["launch", "claude", model, "--context", "600", "--device", "7"]) == 1
    err = capfd.readouterr().err
    assert "the server ended before it answered" in err
    assert "there is no GPU 7" in err


def test_nothing_is_run_where_it_is_only_shown(server, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    attach = ["--attach", server.address, "--key", "the-key"]
    assert run(["launch", "qwen", *attach, "--print", "--", "-p", "it's"]) == 0
    out = capsys.readouterr().out
    assert f"OPENAI_BASE_URL={server.address}/v1 " in out
    assert """qwen --auth-type openai -p 'it'"'"'s'""" in out
    assert '"contextWindowSize": 8192' in out
    assert "# qwen is not installed: npm install -g @qwen-code/qwen-code" in out
    assert "the-key" not in out


def test_a_server_that_would_be_started_is_shown(capsys):
    model = str(engines.tiny("llama"))
    assert run(["launch", "codex", model, "--print", "--kv-type", "q8_0", "--stop"]) == 2
    assert run(["launch", "codex", model, "--print", "--kv-type", "q8_0", "--cache-dir", "c"]) == 0
    serve, *_ = capsys.readouterr().out.splitlines()
    words = shlex.split(serve)
    assert words[:3] == ["localspec", "serve", model]
    assert words[-4:] == ["--cache-dir", "c", "--kv-type", "q8_0"]


def test_a_server_that_is_started_keeps_prompts_unless_it_should_not(capsys, monkeypatch, tmp_path):
    command = ["launch", "codex", str(engines.tiny("llama")), "--print"]
    assert run(command) == 0
    words = shlex.split(capsys.readouterr().out.splitlines()[0])
    own = str(folders.cache() / "prompts")
    assert words[-4:] == ["--cache-dir", own, "--cache-size", "4GiB"]
    assert run([*command, "--forgetful"]) == 0
    assert "--cache-dir" not in capsys.readouterr().out
    monkeypatch.setenv("LOCALSPEC_SERVE_CACHE_DIR", str(tmp_path))
    assert run(command) == 0
    assert "--cache-dir" not in capsys.readouterr().out


def test_an_agent_that_is_not_installed_is_one_sentence(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["launch", "goose", "any"]) == 2
    assert capsys.readouterr().err == (
        "localspec: goose is not installed: brew install block-goose-cli\n"
    )


def test_only_a_server_of_ours_is_used(server):
    assert endpoint_at(server.address, "the-key").model == "scripted"
    with pytest.raises(UsageError, match="has no other; it has: scripted"):
        endpoint_at(server.address, "the-key", "other")
    with pytest.raises(UsageError, match="give --key"):
        endpoint_at(server.address, "", "scripted")


@pytest.mark.parametrize(
    ("serving", "address"),
    [
        (ServingOptions(), "http://127.0.0.1:8080"),
        (ServingOptions(host="0.0.0.0", port=9), "http://127.0.0.1:9"),
        (ServingOptions(host="::", prefix="/llm/"), "http://[::1]:8080/llm"),
        (ServingOptions(tls_cert=Path("c")), "https://127.0.0.1:8080"),
        (ServingOptions(unix=Path("s")), ""),
        (ServingOptions(port=0), ""),
    ],
)
def test_a_server_is_looked_for_where_it_is_configured(serving, address):
    assert usual_address(serving) == address


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_is_told_address_model_context_and_key(name, tmp_path):
    setup = AGENTS[name].setup(Endpoint("http://h:1", "the-model", 40_000, "the-key"), tmp_path)
    text = " ".join([*map(str, setup.variables.values()), *setup.arguments, *setup.files.values()])
    for each in ("http://h:1", "the-model", "40000", "the-key"):
        assert each in text
    for file in setup.files:
        assert str(tmp_path) in " ".join(map(str, setup.variables.values()))
        assert file.parent == tmp_path


@pytest.mark.parametrize(
    ("name", "setting"),
    [
        ("opencode", '"attachment": true'),
        ("opencode", '"input": ["text", "image"]'),
        ("codex", "features.view_image=true"),
        ("aider", '"supports_vision": true'),
        ("crush", '"supports_attachments": true'),
    ],
)
def test_an_agent_hears_whether_the_model_sees(name, setting, tmp_path):
    def all_texts(sees: bool) -> str:
        setup = AGENTS[name].setup(Endpoint("http://h:1", "m", 40_000, sees=sees), tmp_path)
        texts = [*map(str, setup.variables.values()), *setup.arguments, *setup.files.values()]
        return " ".join(texts)

    assert setting in all_texts(True)
    assert setting not in all_texts(False)


@POSIX
def test_an_agent_ends_when_the_system_ends_its_launch(server, tmp_path, monkeypatch):
    """As a terminal that is closed does."""
    program, up = tmp_path / "claude", tmp_path / "up"
    program.write_text("#!/bin/sh\necho $$ > part && mv part up && exec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)

    def end_when_up():
        while not up.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_when_up).start()
    with pytest.raises(SystemExit) as ended:
        run(["launch", "claude", "--attach", server.address, "--key", "the-key"])
    assert ended.value.code == 143
    assert not psutil.pid_exists(int(up.read_text()))


def test_an_agent_ends_that_was_just_started_when_the_end_came(server, tmp_path, monkeypatch):
    program, started = tmp_path / "claude", []
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    class Starting(subprocess.Popen):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            started.append(self.pid)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Starting)
    with pytest.raises(SystemExit) as ended:
        run(["launch", "claude", "--attach", server.address, "--key", "the-key"])
    assert ended.value.code == 143
    assert not psutil.pid_exists(started[0])


def test_the_server_that_is_configured_is_found_with_a_key_of_its_file(server, tmp_path, capsys):
    (tmp_path / "keys").write_text("the-key\nother\n")
    file = tmp_path / "localspec.toml"
    port = server.address.rpartition(":")[2]
    file.write_text(f'[serve]\nport = {port}\napi-key-file = "{(tmp_path / "keys").as_posix()}"\n')
    assert run(["--config", str(file), "launch", "claude", "--print"]) == 0
    out = capsys.readouterr().out
    assert f"ANTHROPIC_BASE_URL={server.address} " in out
    assert "localspec serve" not in out


@pytest.mark.parametrize(
    ("limits", "context"),
    [
        (Limits(), 2048),
        (Limits(budget=1 << 20), 4096),
        (Limits(budget=1 << 20, supposed=True), 4096),
    ],
)
def test_a_large_context_is_chosen_where_nothing_is_conceded_for_it(limits, context):
    model, loading = str(engines.tiny("llama")), Loading(limits=limits)
    request = ServerRequest(model, None, "", ServingOptions(), loading, None, ())
    assert choose_context(model, request, large=2048) == context
    assert choose_context(model, request, large=8192) == 4096  # more than it was trained for
