"""Options as the fields of frozen records: declared once, typed, and read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, TypeVar, overload

import click
from click.core import ParameterSource

from localspec.console.options.size import SIZE, in_units

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from click.types import OptionHelpExtra

T = TypeVar("T")
R = TypeVar("R", bound="DataclassInstance")
Values = Mapping[str, float]

NOTHING: Mapping[str, str] = MappingProxyType({})
TEXT, INTEGER, NUMBER = click.STRING, click.INT, click.FLOAT
COUNT = click.IntRange(1)
NUMBERS = {"integer range": "N", "integer": "N", "float range": "NUMBER", "float": "NUMBER"}
NUMBERS[SIZE.name] = "SIZE"
SECONDS = click.FloatRange(0, min_open=True)
READABLE: click.Path[Path] = click.Path(exists=True, dir_okay=False, path_type=Path)
WRITABLE: click.Path[Path] = click.Path(dir_okay=False, path_type=Path)
EXISTING: click.Path[Path] = click.Path(exists=True, path_type=Path)
FOLDER: click.Path[Path] = click.Path(file_okay=False, path_type=Path)
OPENED: click.ParamType[IO[str]] = click.File(encoding="utf-8")


@overload
def option(
    kind: click.ParamType[T],
    help: str,
    metavar: str | None = ...,
    *,
    otherwise: str = ...,
    envvar: str | None = ...,
) -> T | None: ...
@overload
def option(
    kind: click.ParamType[T],
    help: str,
    metavar: str | None = ...,
    *,
    default: T,
    otherwise: str = ...,
) -> T: ...
def option(
    kind: click.ParamType[T],
    help: str,
    metavar: str | None = None,
    *,
    default: T | None = None,
    otherwise: str = "",
    envvar: str | None = None,
) -> object:
    """Declare an option of one value; without a default it is None where it is not given.

    `otherwise` says in words what holds then, and is shown as the default.
    """
    shown = {"metavar": metavar or NUMBERS.get(kind.name), "show_default": otherwise or True}
    return _field(default, type=kind, help=help, envvar=envvar, **shown)


def secret(help: str, envvar: str) -> str | None:
    """Declare an option whose value is never shown, and may stand in the environment."""
    return _field(None, type=TEXT, help=help, envvar=envvar, hide_input=True)


def optional(kind: click.ParamType[T], help: str, metavar: str, *, alone: T) -> T | None:
    """Declare an option with a value or, as if it had that of `alone`, without one."""
    return _field(None, type=kind, help=help, metavar=metavar, is_flag=False, flag_value=alone)


def required(kind: click.ParamType[T], help: str, metavar: str) -> T:
    """Declare an option that must be given."""
    metadata = {"type": kind, "help": help, "metavar": metavar, "required": True}
    declared: T = field(metadata=metadata)
    return declared


def repeated(
    kind: click.ParamType[T],
    help: str,
    metavar: str | None = None,
    *,
    envvar: str | None = None,
    secret: bool = False,
) -> tuple[T, ...]:
    """Declare an option that may be given several times."""
    shown = {"metavar": metavar, "envvar": envvar, "hide_input": secret}
    return _field((), type=kind, help=help, multiple=True, **shown)


def flag(help: str) -> bool:
    """Declare an option that is either given or not."""
    return _field(False, is_flag=True, help=help)


def _field(default: T, **metadata: object) -> T:
    return field(default=default, metadata=metadata | {"default": default})


def combined(
    default: T, members: Mapping[str, Mapping[str, object]], build: Callable[[Values], T]
) -> T:
    """Declare a field that is built of the values of several options."""
    declared: T = field(default=default, metadata={"members": members, "build": build})
    return declared


class TypedOption(click.Option):
    def get_help_extra(self, ctx: click.Context) -> OptionHelpExtra:
        """Write a default as people type it, and none that is empty."""
        extra, default = super().get_help_extra(ctx), self.default
        if isinstance(self.show_default, str):
            extra["default"] = self.show_default
        elif self.type is SIZE and isinstance(default, int):
            extra["default"] = in_units(default)
        elif isinstance(default, float):
            extra["default"] = f"{default:g}"
        elif not default:
            extra.pop("default", None)
        if extra.get("range", "").startswith("x>"):
            del extra["range"]  # that a number is not negative goes without saying
        return extra


def options(
    *records: type[DataclassInstance], otherwise: Mapping[str, str] = NOTHING
) -> list[click.Parameter]:
    """Make click's options of the fields of records, each named like its field.

    Of several fields with one name the first counts. `otherwise` says in words what holds where
    some are left open, in place of their defaults.
    """
    declared: dict[str, Mapping[str, Any]] = {}
    for record in records:
        for member in fields(record):
            for name, metadata in _members(member.name, member.metadata):
                declared.setdefault(name, metadata)
    return [
        TypedOption(
            [f"--{name.replace('_', '-')}"],
            expose_value=False,  # so that commands take few parameters
            callback=_keep,
            **{"show_default": otherwise.get(name, True), **metadata},
        )
        for name, metadata in declared.items()
    ]


def _members(name: str, metadata: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    alone = [(name.rstrip("_"), metadata)]  # since no field can be called `from`
    return metadata["members"].items() if "members" in metadata else alone


def _keep(context: click.Context, option: click.Parameter, value: object) -> None:
    context.meta[_key(context, option.name)] = value


def _key(context: click.Context, name: str) -> str:
    return f"localspec.{context.info_name}.{name}"  # contexts within another share what they hold


def read(context: click.Context, record: type[R]) -> R:
    """Build a record from the values of a command's options."""
    record_values: dict[str, object] = {}
    for member in fields(record):
        names = [name for name, _ in _members(member.name, member.metadata)]
        values = [context.meta[_key(context, name)] for name in names]
        build = member.metadata.get("build")
        record_values[member.name] = (
            build(dict(zip(names, values, strict=True))) if build else values[0]
        )
    return record(**record_values)


def typed_names(context: click.Context) -> frozenset[str]:
    """Name the parameters that stand on the command line."""
    return _names(context, lambda source: source == ParameterSource.COMMANDLINE)


def set_names(context: click.Context) -> frozenset[str]:
    """Name the parameters that were set: by command line, environment or file."""
    return _names(context, lambda source: source != ParameterSource.DEFAULT)


def _names(
    context: click.Context, fits: Callable[[ParameterSource | None], bool]
) -> frozenset[str]:
    names = (parameter.name for parameter in context.command.params if parameter.name)
    return frozenset(name for name in names if fits(context.get_parameter_source(name)))


def arguments(context: click.Context, *records: type[DataclassInstance]) -> tuple[str, ...]:
    """Write the options of records that were chosen as they would be typed."""
    words: list[str] = []
    names = set_names(context)
    for name in (member.name for record in records for member in fields(record)):
        flag, value = f"--{name.replace('_', '-')}", context.meta[_key(context, name)]
        if name not in names or value is None or value is False:
            continue
        values = value if isinstance(value, tuple) else (value,)
        words += [flag] if value is True else [word for v in values for word in (flag, str(v))]
    return tuple(words)
