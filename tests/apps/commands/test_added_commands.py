"""Commands that other packages add by entry points."""

from __future__ import annotations

import pytest

from localspec.apps.command_line import commands, run
from localspec.apps.command_line.added import added
from localspec.apps.command_line.lazy_group import LazyCommands
from tests.apps.commands.test_starting import SLOW, completing, imported
from tests.packages import install

HELLO = """
import click

@click.command()
@click.option("--to", default="all", help="Whom.")
def hello(to):
    '''Greet.'''
    click.echo(f"hello {to}")
"""
ENTRIES = """[localspec.commands]
hello = greetings:hello
run = greetings:hello
list = greetings:hello
broken = greetings:nothing
number = greetings:click
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    install(tmp_path, "greetings", HELLO, ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    added.cache_clear()
    yield tmp_path
    commands.commands.pop("hello", None)
    added.cache_clear()


def test_a_command_of_another_package_runs_and_has_options_in_the_file(site, tmp_path, capsys):
    file = tmp_path / "options.toml"
    file.write_text('[hello]\nto = "you"\n')
    assert run(["hello"]) == 0
    assert run(["--config", str(file), "hello"]) == 0
    assert capsys.readouterr().out == "hello all\nhello you\n"


def test_the_help_lists_it_and_no_other_package_takes_the_name_of_an_own_command(site, capsys):
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = lines[lines.index("Of other packages:") :]
    assert "  hello            of greetings" in shown
    assert "  list             of greetings: not used, as LocalSpec has one" in shown
    assert LazyCommands()["list"] is commands.commands["list"]
    assert run(["run", "--help"]) == 0
    assert "Greet" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["broken", "number"])
def test_one_that_cannot_be_used_says_why_and_the_others_run(site, name, capsys):
    assert run([name]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"localspec: the command {name} cannot be used: greetings:")
    assert run(["hello"]) == 0


def test_help_and_completion_import_no_package_that_adds_commands(site, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
    for modules, out in (imported("--help"), completing("hel")):
        assert "hello" in out
        assert not modules & (SLOW | {"greetings"})


def test_the_help_asks_for_no_metadata_where_no_package_adds_commands():
    assert "importlib.metadata" not in imported("--help")[0]
