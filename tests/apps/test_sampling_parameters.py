"""Each parameter of sampling is declared once, and arrives wherever it can be set."""

from __future__ import annotations

import inspect
from typing import get_type_hints

import click
import pytest
from click.testing import CliRunner

import localspec
from localspec.apps.chat.named_settings import apply
from localspec.apps.server.requests.sampling import SamplingFields
from localspec.console.options.declare import options, read
from localspec.console.options.reply import ReplyOptions
from localspec.console.options.sections import SectionedCommand
from localspec.core.requests.settings import Settings
from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.parameters import GREEDY, PARAMETERS
from localspec.running.runtime.reply_options import settings_with

EVERY = pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda each: each.field)
TYPED: list[ReplyOptions] = []


@click.command(cls=SectionedCommand, params=options(ReplyOptions))
@click.pass_context
def command(context):
    TYPED.append(read(context, ReplyOptions))


def unusual(parameter):
    low, high = parameter.sensible or parameter.bounds
    return type(parameter.neutral)(low if parameter.neutral == high else high)


@EVERY
def test_a_parameter_arrives_from_everywhere(parameter):
    value, name = unusual(parameter), parameter.names[0]
    expected = parameter.put(GREEDY, value)
    assert expected != GREEDY
    result = CliRunner().invoke(command, [f"--{parameter.option}", str(value)])
    assert (result.output, TYPED.pop().sampling) == ("", expected)
    for each in (*parameter.names, *parameter.aliases):
        assert SamplingFields.model_validate({each: value}).sampling(GREEDY) == expected
    assert settings_with(None, {name: value}).sampling == expected
    assert apply(Settings(), {parameter.option: str(value)}).sampling == expected


@EVERY
def test_a_parameter_is_explained_everywhere(parameter):
    name, about = parameter.names[0], parameter.about
    shown = CliRunner().invoke(command, ["--help-all"], terminal_width=200).output
    _, _, reply = shown.partition("\nReply:\n")
    assert f"--{parameter.option} " in reply
    assert about in " ".join(reply.split())
    text = about[1:-1]
    assert any(
        line.startswith(f"{parameter.field}: ") and line.endswith(text)
        for line in inspect.getdoc(localspec.Sampling).splitlines()
    )
    assert any(
        line.startswith(f"{name}: ") and line.endswith(text)
        for line in inspect.getdoc(localspec.ReplyOptions).splitlines()
    )


def test_type_checkers_know_all_parameters():
    hints = get_type_hints(localspec.ReplyOptions)
    assert {p.names[0]: type(p.neutral) for p in PARAMETERS}.items() <= hints.items()
    assert {texts.name for texts in LISTS} <= hints.keys()
