"""Options from a file and from the environment: which one counts, and what is refused."""

from __future__ import annotations

import json
import sys

import pytest

from localspec.apps.command_line import run
from localspec.console.options.configuration import config_path
from tests import engines


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "localspec.toml"
    monkeypatch.setenv("LOCALSPEC_CONFIG", str(path))
    return path


def tokens(capsys, *options):
    model = str(engines.tiny("llama"))
    assert run(["generate", "--threads", "1", model, "the code is", *options, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["usage"]["completion_tokens"]


def test_flags_come_before_the_environment_before_the_file(file, capsys, monkeypatch):
    file.write_text("[generate]\nmax_tokens = 3\nignore-end = true\n")
    assert tokens(capsys) == 3
    monkeypatch.setenv("LOCALSPEC_GENERATE_MAX_TOKENS", "4")
    assert tokens(capsys) == 4
    assert tokens(capsys, "--max-tokens", "5") == 5


def test_the_users_own_file_is_read_where_no_other_is_named(capsys):
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text("[serve]\nport = 9000\n")
    try:
        assert run(["config"]) == 0
    finally:
        config_path().unlink()
    assert capsys.readouterr().out == (
        f"# {config_path()}\n\n[serve]\nport = 9000  # localspec.toml, line 2, [serve]\n"
    )


def test_what_is_in_force_is_shown_with_where_it_was_said(file, capsys, monkeypatch):
    file.write_text('[serve]\nslots = 2\ncache_size = "4GiB"\nallow-host = "box"\n')
    monkeypatch.setenv("LOCALSPEC_SERVE_PORT", "9001")
    monkeypatch.setenv("LOCALSPEC_SERVE_PROT", "9001")
    monkeypatch.setenv("LOCALSPEC_SERVE_STRICT", "1")
    assert run(["config", "serve"]) == 0
    out, err = capsys.readouterr()
    assert "\nport = 9001  # LOCALSPEC_SERVE_PORT\n" in out
    assert "\nslots = 2  # localspec.toml, line 2, [serve]\n" in out
    assert '\ncache-size = "4GiB"  # localspec.toml, line 3, [serve]\n' in out
    assert '\nallow-host = ["box"]  # localspec.toml, line 4, [serve]\n' in out
    assert "\nstrict = true  # LOCALSPEC_SERVE_STRICT\n" in out
    assert "\n# queue = 64\n" in out
    assert "LOCALSPEC_SERVE_PROT sets nothing; did you mean LOCALSPEC_SERVE_PORT?" in err


def test_what_is_in_force_comes_as_json(file, capsys, monkeypatch):
    file.write_text("[serve]\nslots = 2\n")
    monkeypatch.setenv("LOCALSPEC_SERVE_API_KEY", "secret")
    assert run(["config", "--json"]) == 0
    key = {"value": "********", "source": "environment", "where": "LOCALSPEC_SERVE_API_KEY"}
    slots = {"value": 2, "source": "file", "where": f"{file.name}, line 2, [serve]"}
    record = json.loads(capsys.readouterr().out)
    assert record == {"file": str(file), "commands": {"serve": {"slots": slots, "api-key": key}}}
    assert run(["config", "serve", "--json"]) == 0
    port = json.loads(capsys.readouterr().out)["commands"]["serve"]["port"]
    assert port == {"value": 8080, "source": "default", "where": ""}


def test_what_is_shown_can_be_put_into_the_file(file, capsys):
    file.write_text('[chat]\ntemperature = 0.5\nstop = ["a\\n", "b"]\n[serve]\nport = 1\n')
    assert run(["config"]) == 0
    shown = capsys.readouterr().out
    file.write_text(shown)
    assert run(["config"]) == 0
    again = capsys.readouterr().out
    assert [line.partition("  #")[0] for line in again.splitlines()] == [
        line.partition("  #")[0] for line in shown.splitlines()
    ]


def test_a_command_goes_by_all_of_its_names_and_none_is_named_that_is_hidden(file, capsys):
    file.write_text("")
    assert run(["config", "run"]) == 0
    assert "\n[chat]\n" in capsys.readouterr().out
    file.write_text("[xyzzy]\n")
    assert run(["list"]) == 2
    err = capsys.readouterr().err
    assert "there are add" in err
    assert "join-group" not in err


def test_an_option_that_the_file_writes_in_two_ways_is_refused(file, capsys):
    file.write_text("[chat]\nmax-tokens = 3\nmax_tokens = 4\n")
    assert run(["chat"]) == 2
    assert "[chat]: max-tokens is there twice: keep one" in capsys.readouterr().err


def test_keys_are_not_shown(file, capsys, monkeypatch):
    file.write_text('[serve]\napi-key = ["from-file"]\n')
    monkeypatch.setenv("LOCALSPEC_CHAT_KEY", "from-environment")
    assert run(["config"]) == 0
    out = capsys.readouterr().out
    assert "from-" not in out
    assert out.count('"********"') == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[serve", "is not TOML"),
        ("a = " + "[" * 100_000, "is not TOML"),
        ("port = 3", "there is no command 'port'"),
        ("serve = 3", "serve is no table: write [serve]"),
        ("\n[serv]\n", "line 2, [serv]: there is no command 'serv'; did you mean serve?"),
        ("[serve]\nprot = 3", "line 2, [serve]: there is no option 'prot'; did you mean port?"),
        ("[serve]\nport = 'x'", "line 2, [serve], port: 'x' is not a valid integer"),
        ("[serve]\nport = 2.5", "line 2, [serve], port: '2.5' is not a valid integer"),
        ("[serve]\nport = true", "[serve], port: True is neither a text nor a number"),
        ("[serve]\nport = 70000", "70000 is not in the range"),
        ("[serve]\nstrict = 'yes'", "write true or false, not 'yes'"),
        ("[serve]\nallow-host = [{}]", "[serve], allow-host: {} is neither a text nor a number"),
        ("[serve]\ncache_size = '4 parsecs'", "[serve], cache_size: '4 parsecs' is no size"),
    ],
)
def test_a_file_with_a_mistake_is_one_line_that_says_where(file, capsys, text, said):
    file.write_text(text)
    for arguments in (["config"], ["serve", "any"]):
        assert run(arguments) == 2
        err = capsys.readouterr().err
        assert str(file) in err
        assert said in err
        assert err.count("\n") == 1


def test_a_mistake_in_the_table_of_one_command_stops_no_other(file, capsys):
    file.write_text("[serve]\nprot = 3")
    assert run(["config", "chat"]) == 0
    assert "# temperature = 0.0" in capsys.readouterr().out


def test_a_file_that_is_no_text_is_wrong_usage(file, capsys):
    file.write_bytes(b"\xff\xfe[serve]")
    assert run(["list"]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name the folder otherwise")
def test_a_home_that_is_no_folder_has_no_file(capsys, monkeypatch, tmp_path):
    (tmp_path / "home").touch()  # as the /dev/null of users who are no people
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    assert run(["config"]) == 0
    assert "which is not there" in capsys.readouterr().out


def test_a_wrong_variable_is_named(capsys, monkeypatch):
    monkeypatch.setenv("LOCALSPEC_SERVE_PORT", "tcp://10.0.0.1:8080")
    assert run(["serve", "any"]) == 2
    assert "--port is set by LOCALSPEC_SERVE_PORT" in capsys.readouterr().err


def test_variables_of_other_programs_do_nothing(capsys, monkeypatch):
    monkeypatch.setenv("LOCALSPEC_VERSION", "1")
    assert run(["config", "list"]) == 0
    assert "version" not in capsys.readouterr().out
