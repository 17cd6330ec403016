"""Editors, connected to a server by settings that are printed."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from localspec.apps.cli import run
from localspec.apps.clients import editors
from localspec.apps.clients.command import PROGRAMS
from localspec.apps.clients.editors import EDITORS
from localspec.apps.clients.endpoint import Endpoint
from localspec.apps.clients.running import endpoint_at, fill_in_format, with_fill_in
from localspec.apps.server.app import Terms
from localspec.apps.server.safety import Rules
from localspec.console.speakers.http import Wire
from tests.apps.server.coder import Coder
from tests.apps.server.scripted import Server
from tests.apps.server.seeing import seeing

SERVER = Endpoint("http://127.0.0.1:9", "the-model", 8000, "the-key")


@pytest.fixture(scope="module")
def server():
    made = Server(terms=Terms(Rules(keys=("the-key",))))
    yield made
    made.close()


@pytest.mark.parametrize("program", EDITORS)
def test_settings_of_every_program_have_address_and_model_and_no_key(server, capsys, program):
    assert run(["connect", program, "--attach", server.address, "--key", "the-key"]) == 0
    out = capsys.readouterr().out
    assert server.address in out
    assert "the-key" not in out
    assert "# write the server's API key in place of ********\n" in out
    if program != "open-webui":  # which lists the models itself
        assert "scripted" in out


@pytest.mark.parametrize(
    ("program", "setting"),
    [("vscode", '"vision": true'), ("zed", '"images": true'), ("continue", '"image_input"')],
)
def test_an_editor_hears_whether_the_model_sees(program, setting):
    assert setting in EDITORS[program](replace(SERVER, sees=True)).text
    assert setting not in EDITORS[program](SERVER).text


def test_a_server_is_asked_whether_its_model_sees(server):
    assert not endpoint_at(server.address, "the-key").sees
    seer = seeing()
    try:
        assert endpoint_at(seer.address, "").sees
    finally:
        seer.close()


def test_the_command_names_the_programs_there_are():
    assert tuple(EDITORS) == PROGRAMS


@pytest.fixture(scope="module")
def coder():
    made = Coder()
    yield made.server
    made.server.close()


def test_a_model_that_fills_in_middles_completes_in_continue(coder):
    """By the path of Mistral's API: Continue knows the tokens of some models' names only."""
    assert yaml_models(editors.continue_(SERVER).text)["LocalSpec"]["roles"] == [
        "chat",
        "edit",
        "apply",
    ]
    endpoint = with_fill_in(Endpoint(coder.address, "scripted", 8000))
    models = yaml_models(editors.continue_(endpoint).text)
    assert list(models) == ["LocalSpec", "LocalSpec autocomplete"]
    model = models["LocalSpec autocomplete"]
    answer = coder.client.post(
        f"{model['apiBase']}/fim/completions",
        json={"model": model["model"], "prompt": "def add(", "suffix": ")"},
    )
    assert (model["provider"], model["roles"]) == ("mistral", ["autocomplete"])
    assert answer.status_code == 200


def yaml_models(text):
    """Read the models of Continue's file by name; each line has one value, written as JSON."""
    _, *items = text.split("  - ")
    models = [
        {name: json.loads(value) for name, value in re.findall(r"(\w+): (.*)\n", item)}
        for item in items
    ]
    return {model["name"]: model for model in models}


def test_a_model_whose_marks_zed_knows_predicts_edits_there(coder):
    plain = json.loads(editors.zed(SERVER).text)
    assert "edit_predictions" not in plain
    able = replace(SERVER, fills_in=True, fill_in_format="qwen")
    predictions = json.loads(editors.zed(able).text)["edit_predictions"]
    assert predictions["provider"] == "open_ai_compatible_api"
    assert predictions["open_ai_compatible_api"] == {
        "api_url": "http://127.0.0.1:9/v1/completions",
        "model": "the-model",
        "prompt_format": "qwen",
        "max_output_tokens": 64,
    }
    server = with_fill_in(Endpoint(coder.address, "scripted", 8000))
    assert (server.fills_in, server.fill_in_format) == (True, "")  # its marks are nobody's
    assert "edit_predictions" not in json.loads(editors.zed(server).text)


def test_the_family_is_told_by_a_mark_that_is_one_token(coder):
    wire = Wire(coder.address, "")
    assert fill_in_format(wire, "scripted", {"none": "<fim>", "ours": "<prefix>"}) == "ours"
    assert fill_in_format(wire, "scripted", {"none": "<fim>"}) == ""


def test_where_no_server_answers_that_is_said(capsys, monkeypatch):
    monkeypatch.setenv("LOCALSPEC_SERVE_PORT", "9")
    assert run(["connect", "zed", "some-model"]) == 2
    assert "no LocalSpec with some-model answers at http://127.0.0.1:9" in capsys.readouterr().err
