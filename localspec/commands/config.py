"""The command `localspec config`: the options in force, and where each was set."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    """Show the options that a file or the environment sets.

    With a COMMAND, all options of that one, and what they are if nothing sets them.

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
    brief = replace(file, path=Path(file.path.name))
    for name in [command] if command else mentioned(file, commands):
        defaults = file.defaults(name, commands)
        with click.Context(commands[name], root, name, default_map=defaults) as inner:
            lines = list(shown(inner, brief, whole=bool(command)))
        if lines:
            click.echo("\n".join(["", f"[{name}]", *lines]))
    for notice in strange(commands, root):
        click.echo(f"localspec: {notice}", err=True)


def mentioned(file: Configuration, commands: Collection[str]) -> Sequence[str]:
    """List the commands that the file or the environment may say something of.

    An option's own variable, as LOCALSPEC_API_KEY, may be of any command.
    """
    variables = environment()
    if any(not named_in(variable, commands) for variable in variables):
        return list(commands)
    tables = file.tables(commands)
    return [
        name
        for name in commands
        if name in tables or any(variable.startswith(start(name)) for variable in variables)
    ]


def environment() -> list[str]:
    """List the variables that may set an option."""
    own = f"{PREFIX}_CONFIG"
    return sorted(name for name in os.environ if name.startswith(f"{PREFIX}_") and name != own)


def start(command: str) -> str:
    """Return how the variables of a command's options begin."""
    return f"{PREFIX}_{command.upper().replace('-', '_')}_"


def named_in(variable: str, commands: Iterable[str]) -> bool:
    return variable.startswith(tuple(map(start, commands)))


def shown(context: click.Context, file: Configuration, *, whole: bool) -> Iterator[str]:
    """Write options as TOML, each with where it was set; built-in values as comments."""
    for key, option in by_name(context.command).items():
        value, source = option.consume_value(context, {})
        if source == ParameterSource.DEFAULT_MAP:
            place = file.where(context.info_name or "", key)
            yield f"{key} = {written(option, value)}  # {place}"
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
    for name in commands:
        own = [each for each in environment() if each.startswith(start(name))]
        if not own:
            continue
        with click.Context(commands[name], root, name) as context:
            options = by_name(commands[name]).values()
            known = {each for option in options for each in variables(option, context)}
        for each in own:
            if each not in known:
                near = get_close_matches(each, known, n=1)
                yield f"{each} sets nothing" + (f"; did you mean {near[0]}?" if near else "")
