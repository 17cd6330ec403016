"""Editors, told of a server by what is printed or by a change of their own files."""

from __future__ import annotations

import json
import stat
import sys
from dataclasses import replace

import pytest
import yaml

from localspec.chat.speakers.http import Wire
from localspec.cli import run
from localspec.clients import editors, jsonc, yaml_list
from localspec.clients.command import PROGRAMS
from localspec.clients.editors import EDITORS
from localspec.clients.endpoint import Endpoint
from localspec.clients.running import completing, fill_in_format
from localspec.errors import UsageError
from localspec.server.app import Terms
from localspec.server.safety import Rules
from tests.server.coder import Coder
from tests.server.scripted import Server

SERVER = Endpoint("http://127.0.0.1:9", "the-model", 8000, "the-key")
WAY = ("language_models", "openai_compatible", "LocalSpec")


@pytest.fixture(scope="module")
def server():
    made = Server(terms=Terms(Rules(keys=("the-key",))))
    yield made
    made.close()


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("HOME", "USERPROFILE", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("LOCALSPEC_API_KEY", "the-key")
    return tmp_path


@pytest.mark.parametrize("program", EDITORS)
def test_every_program_is_told_address_and_model_and_no_key_is_printed(server, capsys, program):
    assert run(["connect", program, "--attach", server.address, "--key", "the-key"]) == 0
    out = capsys.readouterr().out
    assert server.address in out
    assert "the-key" not in out
    if program != "open-webui":  # which lists the models itself
        assert "scripted" in out


def test_the_command_names_the_programs_there_are():
    assert tuple(EDITORS) == PROGRAMS


@pytest.mark.parametrize("program", ["vscode", "zed", "continue"])
def test_a_file_is_written_once_and_again_only_for_another_model(server, home, capsys, program):
    command = ["connect", program, "--attach", server.address, "--write"]
    change = EDITORS[program](SERVER).change
    assert run(command) == 0
    first = change.path.read_bytes()
    assert b"scripted" in first
    assert b"the-key" in first or program == "zed"
    assert run(command) == 0
    assert "has it already" in capsys.readouterr().out
    assert change.path.read_bytes() == first
    assert sorted(each.name for each in change.path.parent.iterdir()) == [change.path.name]


@pytest.fixture(scope="module")
def coder():
    made = Coder()
    yield made.server
    made.server.close()


def test_a_model_that_fills_in_middles_completes_in_continue(coder, server, home):
    """By the path of Mistral's API: Continue knows the tokens of some models' names only."""
    path = EDITORS["continue"](SERVER).change.path
    for each, roles in ((server, []), (coder, ["autocomplete"])):
        assert run(["connect", "continue", "--attach", each.address, "--write"]) == 0
        models = yaml.safe_load(path.read_text())["models"]
        named = {model["name"]: model for model in models}
        assert named["LocalSpec"]["roles"] == ["chat", "edit", "apply"]
        assert named.get("LocalSpec autocomplete", {"roles": []})["roles"] == roles
    entry = named["LocalSpec autocomplete"]
    answer = coder.client.post(
        f"{entry['apiBase']}/fim/completions",
        json={"model": entry["model"], "prompt": "def add(", "suffix": ")"},
    )
    assert entry["provider"] == "mistral"
    assert answer.status_code == 200


def test_a_model_whose_marks_zed_knows_predicts_edits_there(coder, home):
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
    server = completing(Endpoint(coder.address, "scripted", 8000))
    assert (server.fills_in, server.fill_in_format) == (True, "")  # its marks are nobody's
    assert "edit_predictions" not in json.loads(editors.zed(server).text)


def test_the_family_is_told_by_a_mark_that_is_one_token(coder):
    wire = Wire(coder.address, "")
    assert fill_in_format(wire, "scripted", {"none": "<fim>", "ours": "<prefix>"}) == "ours"
    assert fill_in_format(wire, "scripted", {"none": "<fim>"}) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes of POSIX")
def test_a_users_file_keeps_comments_mode_link_and_what_it_was(server, home, capsys):
    before = b'// mine\r\n{\r\n  "theme": "One", // dark\r\n}\r\n'
    path = editors.zed(SERVER).change.path
    real = home / "dotfiles" / "zed.json"
    for folder in (real.parent, path.parent):
        folder.mkdir(parents=True)
    real.write_bytes(before)
    real.chmod(0o640)
    path.symlink_to(real)
    assert run(["connect", "zed", "--attach", server.address, "--write"]) == 0
    assert path.is_symlink()
    after = real.read_bytes()
    assert after.startswith(b'// mine\r\n{\r\n  "theme": "One",')
    assert b"// dark" in after
    assert b"\n" not in after.replace(b"\r\n", b"")
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert (real.parent / "zed.json.before-localspec").read_bytes() == before


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"language_models": 3}', '{} {"a": 1}', "[" * 100_000, '{"a": }']
)
def test_a_file_that_is_not_understood_is_left_as_it_is(server, home, capsys, text):
    path = editors.zed(SERVER).change.path
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert run(["connect", "zed", "--attach", server.address, "--write"]) == 2
    assert "is left as it is" in capsys.readouterr().err
    assert path.read_text() == text


@pytest.mark.parametrize("program", ["jetbrains", "open-webui", "cline"])
def test_programs_without_such_a_file_are_refused_with_what_to_do(server, home, capsys, program):
    assert run(["connect", program, "--attach", server.address, "--write"]) == 2
    err = capsys.readouterr().err
    assert "no file that could be written" in err
    assert server.address in err
    assert "the-key" not in err


def test_where_no_server_answers_that_is_said(capsys, monkeypatch):
    monkeypatch.setenv("LOCALSPEC_SERVE_PORT", "9")
    assert run(["connect", "zed", "some-model"]) == 2
    assert "no LocalSpec with some-model answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// only a comment\n",
        "{}",
        '{"a": 1}',
        '{"a": 1,}',
        '{\n  "a": [1, 2,], // x, "y"\n  "b": "// no comment, }",\n}\n',
        '{\n  /* "language_models": 3 */\n  "language_models": {\n    // nothing yet\n  }\n}',
        '{"language_models": {"openai_compatible": {"Other": {}, "LocalSpec": 1}}, "z": 0}',
        '{"language_models": {"ollama": {"api_url": "u"}}} // end',
    ],
)
def test_one_value_of_json_is_set_and_all_else_kept(text):
    value = {"api_url": "http://x", "list": [1]}
    after = jsonc.put(text, WAY, value)
    found = json.loads(jsonc.without_comments(after))
    assert found["language_models"]["openai_compatible"]["LocalSpec"] == value
    before = json.loads(jsonc.without_comments(text).strip() or "{}")
    for key in before.keys() - {"language_models"}:
        assert found[key] == before[key]
    for each in jsonc.COMMENT.finditer(text):
        assert each[0] in after
    assert jsonc.put(after, WAY, value) == after


def test_an_entry_of_a_list_is_found_by_its_name():
    way = (jsonc.Element("name", "LocalSpec"),)
    text = '[\n  {"name": "Other"},\n  {"name": "LocalSpec", "old": 1}\n]\n'
    after = jsonc.put(text, way, {"name": "LocalSpec", "new": 2})
    assert json.loads(after) == [{"name": "Other"}, {"name": "LocalSpec", "new": 2}]
    assert after.startswith('[\n  {"name": "Other"},\n')


YAML = (
    "# mine\nname: Mine\nmodels: # all\n    - name: Other # a comment\n      model: x\nrules: []\n"
)
ENTRY = {"name": "LocalSpec", "model": "a: b", "contextLength": 5, "roles": ["chat", "edit"]}


def test_one_entry_of_yaml_is_set_and_all_else_kept():
    once = yaml_list.put(YAML, "models", ENTRY)
    assert yaml.safe_load(once)["models"] == [ENTRY, {"name": "Other", "model": "x"}]
    assert "- name: Other # a comment\n" in once
    assert yaml_list.put(once, "models", ENTRY) == once
    other = yaml_list.put(once, "models", ENTRY | {"model": "y"})
    assert yaml.safe_load(other)["models"][0]["model"] == "y"
    assert other.count("LocalSpec") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: [{name: x}]\n", "one entry a line"),
        ("name: x\n", "no list 'models'"),
        ("models:\n  - just a text\n", "no list 'models'"),
        ("models: [\n", "not YAML"),
        ("models:\n- {name: LocalSpec, model: q}\n", "cannot be changed safely"),
        ("a: &a\n  x: 1\nmodels:\n  - *b\n", "not YAML"),
    ],
)
def test_yaml_that_cannot_be_changed_safely_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        yaml_list.put(text, "models", ENTRY)
