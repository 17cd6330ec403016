"""Commands that other packages add, by entry points of the group `localspec.commands`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localspec.base.errors import LocalSpecError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "localspec.commands"


@cache
def added() -> Mapping[str, EntryPoint]:
    """Return the commands that packages here add, by name."""
    if not any(map(adds_commands, sys.path)):
        return {}
    from importlib.metadata import entry_points  # takes five times as long as to look first

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def adds_commands(folder: str) -> bool:
    """Return whether a package in a folder has the group among its entry points."""
    with suppress(OSError):
        files = Path(folder).glob("*-info/entry_points.txt")
        return any(GROUP.encode() in file.read_bytes() for file in files)
    return False


def load(entry: EntryPoint) -> click.Command:
    try:
        command = entry.load()
        if not isinstance(command, click.Command):
            raise TypeError("it is no command of click")
    except Exception as error:  # of whatever kind: it is a stranger's module
        fault = f"the command {entry.name} cannot be used: {entry.value}: {error!r}"
        raise LocalSpecError(fault) from error
    return command
