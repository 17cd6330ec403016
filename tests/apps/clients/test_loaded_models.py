"""`ps` and `stop`, told by a server that runs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from localspec.apps.command_line import run
from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.safety import Rules
from tests.apps.server.scripted import Server


@pytest.fixture
def server():
    made = Server(policy=ServerPolicy(Rules(keys=("the-key",))))
    asked = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    headers = {"authorization": "Bearer the-key"}
    assert made.client.post("/v1/chat/completions", json=asked, headers=headers).is_success
    yield made
    made.close()


def attached(server, *command):
    return run([*command, "--attach", server.address, "--key", "the-key"])


def test_loaded_models_are_listed_and_unloaded(server, capsys):
    assert attached(server, "ps") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "SIZE", "PLACE", "CONTEXT", "UNLOADS"]
    assert row.split()[0] == "scripted"
    assert row.endswith("never")
    assert attached(server, "ps", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["server"] == server.address
    assert listed["models"][0]["name"] == "scripted"
    assert listed["models"][0]["unloads_at"] is None
    assert attached(server, "stop", "scripted:latest") == 0
    assert capsys.readouterr().out == "scripted is unloaded\n"
    assert attached(server, "ps") == 0
    assert capsys.readouterr().out == f"no model is loaded at {server.address}\n"
    assert attached(server, "stop", "scripted") == 2
    assert "no model is loaded" in capsys.readouterr().err


def test_a_pinned_model_is_listed_as_one(server, capsys):
    server.app.state.host.loaded["scripted"].offer = replace(
        server.app.state.host.offers["scripted"], pinned=True
    )
    assert attached(server, "ps") == 0
    assert capsys.readouterr().out.rstrip().endswith("never: pinned")
    assert attached(server, "ps", "--json") == 0
    assert json.loads(capsys.readouterr().out)["models"][0]["pinned"] is True


def test_a_model_that_is_not_loaded_is_answered_with_those_that_are(server, capsys):
    assert attached(server, "stop", "other") == 2
    assert "has no other; it has: scripted" in capsys.readouterr().err


def test_the_server_is_the_one_that_is_configured(server, capsys, monkeypatch):
    monkeypatch.setenv("LOCALSPEC_SERVE_PORT", server.address.rpartition(":")[2])
    monkeypatch.setenv("LOCALSPEC_API_KEY", "the-key")
    assert run(["ps"]) == 0
    assert "scripted" in capsys.readouterr().out


def test_where_no_server_answers_that_is_said_with_what_to_do(capsys, monkeypatch):
    monkeypatch.setenv("LOCALSPEC_SERVE_PORT", "9")
    for command in (["ps"], ["stop", "any"]):
        assert run(command) == 2
        err = capsys.readouterr().err
        assert "no server answers at http://127.0.0.1:9" in err
        assert "--attach" in err
