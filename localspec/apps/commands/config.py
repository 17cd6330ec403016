"""The command `localspec config`: the options in force, and where each was set."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import click
from click.core import ParameterSource

from localspec.console.options.configuration import (
    HIDDEN,
    PREFIX,
    Configuration,
    by_name,
    read,
    variable,
    variables,
)
from localspec.console.options.declare import flag, options
from localspec.console.options.declare import read as read_options


@dataclass(frozen=True, slots=True)
class ConfigOptions:
    json: bool = flag("Options as JSON.")


@dataclass(frozen=True, slots=True)
class ShownOption:
    """An option of a command, and where it was set."""

    key: str
    value: object
    source: str  # "file", "environment" or "default"
    where: str  # the line of the file, or the variable

    def as_toml(self) -> str:
        if self.source == "default":
            return f"# {self.key} = {toml_value(self.value)}".rstrip()
        return f"{self.key} = {toml_value(self.value)}  # {self.where}"


@click.command(params=options(ConfigOptions))
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
    if command:  # also by another name
        command = root.command.resolve_command(root, [command])[0] or ""
    file = read(root.params["config"])
    tables = {
        name: list(shown_options(name, file, root, whole=bool(command)))
        for name in ([command] if command else set_commands(file, commands))
    }
    if read_options(context, ConfigOptions).json:
        click.echo(json.dumps(as_data(file, tables), indent=2))
    else:
        click.echo(f"# {file.path}" + ("" if file.text else ", which is not there"))
        for name, table in tables.items():
            if table:
                click.echo("\n".join(["", f"[{name}]", *(option.as_toml() for option in table)]))
    for notice in unused_variables(commands, root):
        click.echo(f"localspec: {notice}", err=True)


def as_data(file: Configuration, tables: Mapping[str, Sequence[ShownOption]]) -> dict[str, object]:
    return {
        "file": str(file.path),
        "commands": {
            name: {
                option.key: {"value": option.value, "source": option.source, "where": option.where}
                for option in table
            }
            for name, table in tables.items()
            if table
        },
    }


def set_commands(file: Configuration, commands: Collection[str]) -> Sequence[str]:
    """List the commands with settings in the file or in the environment.

    An option's own variable, as LOCALSPEC_API_KEY, may be of any command.
    """
    variables, starts = environment(), tuple(map(start, commands))
    if not all(variable.startswith(starts) for variable in variables):
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


def shown_options(
    name: str, file: Configuration, root: click.Context, *, whole: bool
) -> Iterator[ShownOption]:
    """List the options of a command that something sets, or all of them."""
    assert isinstance(root.command, click.Group)
    commands = root.command.commands
    command, defaults = commands[name], file.defaults(name, commands)
    file = replace(file, path=Path(file.path.name))
    with click.Context(command, root, name, default_map=defaults) as context:
        for key, option in by_name(command).items():
            value, source = option.consume_value(context, {})
            if source == ParameterSource.DEFAULT_MAP:
                yield ShownOption(key, hidden(option, value), "file", file.where(name, key))
            elif source == ParameterSource.ENVIRONMENT:
                cast = option.type_cast_value(context, value)
                value = cast if isinstance(cast, int | float) else value
                where = variable(option, context)
                yield ShownOption(key, hidden(option, value), "environment", where)
            elif whole:
                value = option.get_default(context)
                yield ShownOption(key, None if value == () else value, "default", "")


def hidden(option: click.Option, value: object) -> object:
    return HIDDEN if option.hide_input else value


def toml_value(value: object) -> str:
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def unused_variables(commands: Mapping[str, click.Command], root: click.Context) -> Iterator[str]:
    """List variables that begin like those of a command, and set nothing."""
    for name in commands:
        own = [key for key in environment() if key.startswith(start(name))]
        if not own:
            continue
        with click.Context(commands[name], root, name) as context:
            options = by_name(commands[name]).values()
            known_keys = {key for option in options for key in variables(option, context)}
        for key in own:
            if key not in known_keys:
                near = get_close_matches(key, known_keys, n=1)
                yield f"{key} sets nothing" + (f"; did you mean {near[0]}?" if near else "")
