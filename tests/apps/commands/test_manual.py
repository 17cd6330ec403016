"""The manual page, as `localspec --man` prints it and man(1) shows it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import click
import pytest

from localspec.apps.command_line import commands, run
from localspec.apps.command_line.manual import escape


@pytest.fixture
def page(capsys):
    assert run(["--man"]) == 0
    return capsys.readouterr().out


def test_the_manual_has_every_command_with_its_options(page):
    parts = re.split(r"^\.SH (.+)$", page, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert {"NAME", "SYNOPSIS"} < sections.keys()
    for name, command in commands.commands.items():
        if name != "join-group":  # which `launch-group` runs
            section = sections[escape(name.upper())]
            context = click.Context(command, info_name=name)
            for parameter in command.get_params(context):
                if record := parameter.get_help_record(context):
                    assert escape(record[0]) in section, name


def test_every_line_of_the_manual_is_a_request_that_man_knows_or_text(page):
    requests = set(re.findall(r"^\.(\S*)", page, re.MULTILINE))
    assert requests == {"TH", "ad", "nh", "SH", "SS", "PP", "TP"}
    assert not re.search(r"^'", page, re.MULTILINE)


@pytest.mark.skipif(not shutil.which("groff"), reason="groff, which lays pages out, is not here")
def test_groff_lays_the_manual_out_without_a_warning(page):
    command = ["groff", "-man", "-ww", "-Wbreak", "-Tutf8", "-P-cbou"]  # some words are long
    done = subprocess.run(command, input=page, capture_output=True, text=True, env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.sub(r"\s+", " ", done.stdout)
    assert "LOCALSPEC(1)" in shown
    assert "localspec - Run language models on this machine" in shown
    assert "If PROMPT is `-`, standard input is the prompt." in shown


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (".TH x", "\\&.TH x"),
        ("'quoted'", "\\(aqquoted\\(aq"),
        ("C:\\users", "C:\\eusers"),
        ("two\n  lines", "two lines"),
    ],
)
def test_text_is_no_request(text, line):
    assert escape(text) == line
