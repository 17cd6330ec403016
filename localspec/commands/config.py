"""The command `localspec config`: the options in force, and where each was set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

import click
from click.core import ParameterSource

from localspec.commands.configuration import (
    HIDDEN,
    PREFIX,
    Configuration,
    by_name,
    read,
    unknown,
    variable,
    variables,
)
from localspec.errors import UsageError


@click.command()
@click.argument("command", default="")
@click.pass_context
def config(context: click.Context, command: str) -> None:
    """Show the options that a file or the environment sets, or all options of one COMMAND.

    The command line comes first, then LOCALSPEC_COMMAND_OPTION in the environment, then
    localspec.toml with a table for each command. What is printed may be put there.
    """
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    commands = root.command.commands
    if command and command not in commands:
        raise UsageError(unknown("command", command, commands))
    file = read(root.params["config"])
    click.echo(f"# {file.path}" + ("" if file.text else ", which is not there"))
    file = replace(file, path=Path(file.path.name))
    for name in [command] if command else commands:
        lines = list(shown(commands[name], root, file, whole=bool(command)))
        if lines:
            click.echo("\n".join(["", f"[{name}]", *lines]))
    for notice in strange(commands, root):
        click.echo(f"localspec: {notice}", err=True)


def shown(
    command: click.Command, root: click.Context, file: Configuration, *, whole: bool
) -> Iterator[str]:
    """Write options as TOML, each with where it was set; built-in values as comments."""
    name = command.name or ""
    with click.Context(command, root, name) as context:
        for key, option in by_name(command).items():
            value, source = option.consume_value(context, {})
            if source == ParameterSource.DEFAULT_MAP:
                yield f"{key} = {written(option, value)}  # {file.where(name, key)}"
            elif source == ParameterSource.ENVIRONMENT:
                cast = option.type_cast_value(context, value)
                value = cast if isinstance(cast, int | float) else value
                yield f"{key} = {written(option, value)}  # {variable(option, context)}"
            elif whole:
                yield f"# {key} = {written(option, option.get_default(context))}".rstrip()


def written(option: click.Option, value: object) -> str:
    if value is None or value == ():
        return ""
    return json.dumps(HIDDEN if option.hide_input else value, ensure_ascii=False)


def strange(commands: Mapping[str, click.Command], root: click.Context) -> Iterator[str]:
    """List variables that begin like those of a command, and set nothing."""
    known = {f"{PREFIX}_CONFIG"}
    for name, command in commands.items():
        with click.Context(command, root, name) as context:
            known |= {each for o in by_name(command).values() for each in variables(o, context)}
    starts = tuple(f"{PREFIX}_{name.upper().replace('-', '_')}_" for name in commands)
    for each in sorted(os.environ):
        if each.startswith(starts) and each not in known:
            near = get_close_matches(each, known, n=1)
            yield f"{each} sets nothing" + (f"; did you mean {near[0]}?" if near else "")
