"""The options in `localspec.toml`, one table a command, checked against the commands."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
from click.core import ParameterSource

from localspec.base.errors import UsageError
from localspec.base.system import folders

FILE, PREFIX = "localspec.toml", "LOCALSPEC"
HIDDEN = "********"  # in place of a key
Value = str | bool | int | float | list["Value"]


def config_path() -> Path:
    return folders.configuration() / FILE


@dataclass(frozen=True, slots=True)
class Configuration:
    """The text of a file, which errors quote the lines of."""

    path: Path
    text: str = ""

    def where(self, table: str, key: str = "") -> str:
        """Name the file, the line if it is found, and the table."""
        line = line_of(self.text, table, key)
        return f"{self.path}, {f'line {line}, ' if line else ''}[{table}]"

    def defaults(self, name: str, commands: Mapping[str, click.Command]) -> dict[str, Value]:
        """Return the values of a command by parameter, or raise for the first that is wrong.

        Options of other commands are not looked at, for which these would have to be imported.
        """
        tables = self.tables(commands)
        return self._table(name, tables[name], commands[name]) if name in tables else {}

    def tables(self, commands: Collection[str]) -> dict[str, dict[str, object]]:
        """Return the file's values per command; an unknown name is an error."""
        if not self.text:
            return {}
        import tomllib  # which takes as long as to look for commands of other packages

        try:
            tables = tomllib.loads(self.text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise UsageError(f"{self.path} is not TOML: {error}") from error
        for name, table in tables.items():
            if name not in commands:
                raise UsageError(f"{self.where(name)}: {unknown('command', name, commands)}")
            if not isinstance(table, dict):
                text = f"{name} is no table: write [{name}], then its options"
                raise UsageError(f"{self.path}: {text}")
        return tables

    def _table(
        self, name: str, table: Mapping[str, object], command: click.Command
    ) -> dict[str, Value]:
        options, values = by_name(command), dict[str, Value]()
        for key, value in table.items():
            parameter = self._parameter(name, key, options)
            if parameter in values:
                option = key.replace("_", "-")
                raise UsageError(f"{self.where(name, key)}: {option} is there twice: keep one")
            values[parameter] = self._value(name, key, value, options)
        return values

    def _parameter(self, table: str, key: str, options: Mapping[str, click.Option]) -> str:
        option = options.get(key.replace("_", "-"))
        if option is None or option.name is None:
            fault = unknown("option", key, options)
            raise UsageError(f"{self.where(table, key)}: {fault}")
        return option.name

    def _value(
        self, table: str, key: str, value: object, options: Mapping[str, click.Option]
    ) -> Value:
        option = options[key.replace("_", "-")]
        try:
            plain_value = check_value(value, option)
            with click.Context(click.Command(table)) as context:
                option.type_cast_value(context, as_typed(plain_value))
        except (click.BadParameter, ValueError) as error:
            fault = error.message if isinstance(error, click.BadParameter) else error
            raise UsageError(f"{self.where(table, key)}, {key}: {fault}") from None
        return plain_value


def read(path: Path | None) -> Configuration:
    """Read the given file, or the user's; a missing file is an empty one."""
    file = path or config_path()
    try:
        return Configuration(file, file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):  # also for users whose home is /dev/null
        return Configuration(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def by_name(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by the names that a file has for them."""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {option.opts[0].removeprefix("--"): option for option in options}


def check_value(value: object, option: click.Option) -> Value:
    """Take a value of TOML if it is of a kind that an option has."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise ValueError(f"write true or false, not {value!r}")
        return value
    if option.multiple:
        return [text_or_number(item) for item in (value if isinstance(value, list) else [value])]
    return text_or_number(value)


def text_or_number(value: object) -> str | int | float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is neither a text nor a number")
    return value


def as_typed(value: Value) -> object:
    """Write a value as the command line has it, so that 2.5 is no whole number there either."""
    if isinstance(value, bool):
        return value
    return [str(item) for item in value] if isinstance(value, list) else str(value)


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches  # which only errors need

    near = get_close_matches(name.replace("_", "-"), list(names), n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
    return f"there is no {kind} {name!r}; {hint}"


def line_of(text: str, table: str, key: str = "") -> int | None:
    """Find the line of a table, or of a key in it, where it is written the usual way."""
    inside, named = False, re.escape(key).replace("_", "-").replace(r"\-", "[-_]")
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*[\"']?([^\"'\]]+?)[\"']?\s*\]", line):
            inside = header[1] == table
            if inside and not key:
                return number
        elif inside and re.match(rf"\s*[\"']?{named}[\"']?\s*=", line):
            return number
    return None


def variables(option: click.Option, context: click.Context) -> list[str]:
    """Name the variables of the environment that set an option, the first first."""
    own = option.envvar or ()
    named = [own] if isinstance(own, str) else [*own]
    return [*named, f"{context.auto_envvar_prefix}_{(option.name or '').upper()}"]


def variable(option: click.Option, context: click.Context) -> str:
    """Name the variable that sets an option."""
    return next(folder for folder in variables(option, context) if os.environ.get(folder))


def origin(error: click.ClickException) -> str:
    """Name the environment variable of a refused value; "" if it came from elsewhere."""
    match error:
        case click.BadParameter(ctx=click.Context() as context, param=click.Option() as option):
            source = context.get_parameter_source(option.name or "")
            if source == ParameterSource.ENVIRONMENT:
                return f"{option.opts[0]} is set by {variable(option, context)} in the environment"
    return ""
