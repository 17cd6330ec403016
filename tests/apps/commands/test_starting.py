"""Starting: which modules a command imports, and the table by which the group's help is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from localspec.apps.command_line import commands, run
from localspec.apps.command_line.lazy_group import ALIASES, LISTED
from localspec.console.options import sections

# A second finder of modules, which Ctrl-C meets as the command imports its own.
INTERRUPTED = """
import sys
class Interrupt:
    @staticmethod
    def find_spec(name, *_):
        if name == "localspec.apps.command_line":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt)
from localspec.__main__ import main
main()
"""

# Packages that take long to import, and a part of LocalSpec that does.
SLOW = {"numpy", "httpx", "starlette", "pydantic", "jinja2", "llama_cpp", "mlx", "prompt_toolkit"}
SLOW |= {"huggingface_hub", "transformers", "localspec.formats.dialects"}
FEW = 20  # modules of LocalSpec's own

SCRIPT = """
import sys
from localspec.apps.command_line import run
try:
    run(sys.argv[1:])
finally:
    print(*sys.modules, sep="\\n", file=sys.stderr)
"""


def imported(*arguments, **environment):
    """Run the command line in a process of its own; return the modules that it has then."""
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=60
    )
    return set(done.stderr.split("\n")), done.stdout


def completing(*words):
    typed = {"COMP_WORDS": " ".join(["localspec", *words]), "COMP_CWORD": str(len(words))}
    return imported(**typed, _LOCALSPEC_COMPLETE="bash_complete")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_no_command(option):
    modules, out = imported(option)
    assert "localspec" in out
    assert not modules & SLOW
    assert sum(name.startswith("localspec") for name in modules) <= FEW


def test_completing_a_commands_name_imports_no_command():
    modules, out = completing("ch")
    assert out == "plain,chat\n"
    assert not modules & SLOW
    assert sum(name.startswith("localspec") for name in modules) <= FEW


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (("chat", "smoll"), "plain,smollm2-135m\n"),
        (("run", "--temp"), "plain,--temperature\n"),
        (("serve", "--cache-r"), "plain,--cache-ram\n"),
        (("generate", "./no-mod"), "file,./no-mod\n"),
        (("pull", "./no-mod"), "\n"),
    ],
)
def test_completing_models_and_options_imports_no_engine(words, completed):
    modules, out = completing(*words)
    assert out == completed
    assert not modules & SLOW


@pytest.mark.parametrize("arguments", [("config",), ("config", "serve"), ("chat", "--help")])
def test_reading_options_imports_no_engine(arguments):
    modules, _ = imported(*arguments)
    assert not modules & SLOW


@pytest.mark.long
def test_the_list_imports_no_engine_that_was_asked_a_moment_ago():
    _, first = imported("list")
    modules, again = imported("list")
    assert not modules & SLOW
    # Speeds to expect are of this moment, and change on a busy machine.
    assert [line[:20] for line in again.splitlines()] == [line[:20] for line in first.splitlines()]


def test_localspec_itself_imports_nothing_before_a_name_is_used():
    script = "import localspec, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert not set(done.stdout.split()) & SLOW


@pytest.mark.parametrize("name", LISTED)
def test_the_table_agrees_with_the_command(name):
    listed, command = LISTED[name], commands.commands[name]
    assert command.name == name
    assert command.hidden == (not listed.about)
    assert command.help.startswith(listed.about)


def test_no_line_of_help_is_cut_or_wrapped_at_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    for listed in filter(lambda each: each.about, LISTED.values()):
        assert any(line.split(maxsplit=1) == [listed.name, listed.about] for line in lines)


OPTIONS = [
    pytest.param(option, id=f"{name}{option.opts[0]}")
    for name in LISTED
    for option in commands.commands[name].params
    if isinstance(option, click.Option)
]


@pytest.mark.parametrize("option", OPTIONS)
def test_a_default_stands_in_brackets_behind_what_an_option_is(option):
    assert option.help[0].isupper()
    assert option.help.endswith(".")
    assert not re.search(r"Without it|\belse\b|\bdefault\b|; \d+\.$", option.help)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("generate", "Number of layers on GPUs.  [default: as many as fit]"),
        ("generate", "Maximum tokens to generate.  [default: until the context is full]"),
        ("serve", "Maximum size of a request's body.  [default: 32MiB]"),
        ("bench", "Prompts per category.  [default: 2, of a file all]"),
    ],
)
def test_a_default_that_is_decided_later_is_shown_in_words(name, shown, capsys):
    assert run([name, "--help"]) == 0
    assert shown in " ".join(capsys.readouterr().out.split()).replace(" [", "  [")


def test_everyday_commands_come_first_in_the_help(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    places = [out.index(f"\n  {name} ") for name in ("chat", "pull", "show", "bench", "worker")]
    assert places == sorted(places)


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_is_called_by_the_name_of_its_command(alias, capsys):
    assert run([alias, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: localspec {ALIASES[alias]} ")
    assert alias not in commands.commands


def test_a_command_that_is_not_there_suggests_one_that_is(capsys):
    assert run(["lits"]) == 2
    assert "Did you mean 'list'?" in capsys.readouterr().err


SECTIONED = ("chat", "generate", "serve", "launch", "plan", "tune", "bench", "prove")


@pytest.mark.parametrize("name", SECTIONED)
def test_options_come_in_sections_everyday_ones_first_and_gpus_last(name, capsys):
    assert run([name, "--help-all" if name in ("chat", "generate") else "--help"]) == 0
    out = capsys.readouterr().out
    titles = [line for line in out.splitlines() if line.endswith(":") and line[:1].strip()]
    assert titles[0] == "Options:"
    assert titles[-1] == "Engine, memory and GPUs:"
    for option in commands.commands[name].params:
        if option.opts[0].startswith("--"):
            assert out.count(f"  {option.opts[0]} ") == 1


def test_every_option_of_a_section_is_one_of_some_command():
    options = {each.name for command in commands.commands.values() for each in command.params}
    assert (
        not {name for names in sections.SECTIONS.values() for name in names}
        - options
        - {"help", "help_all"}
    )


def test_every_option_says_what_it_does_in_a_sentence():
    for command in commands.commands.values():
        for option in command.params:
            if option.param_type_name == "option":
                about = option.help
                assert about[0].isupper() or about[0].isdigit(), (command.name, option.name)
                assert about.endswith("."), (command.name, option.name)


def test_defaults_are_shown_as_they_are_typed(capsys):
    assert run(["serve", "--help"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    for shown in ("127.0.0.1", "8080; 0<=x<=65535", "8GiB", "32MiB", "600", "1024", "auto"):
        assert f"[default: {shown}]" in out
    assert '""' not in out
    assert "[x>=1]" not in out


def test_an_interrupt_while_modules_are_imported_ends_without_a_traceback():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (130, b"")
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["scripts"]["localspec"] == "localspec.__main__:main"
