"""Tells editors of a server: prints what they need, or writes it into their files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import click

from localspec.clients.editors import Change, Connection
from localspec.clients.endpoint import Endpoint
from localspec.clients.running import answering, completing, found, usual_address
from localspec.commands.configuration import HIDDEN
from localspec.errors import UsageError
from localspec.server.options import ServingOptions
from localspec.system import atomic_write

BACKUP = ".before-localspec"


def server_of(attach: str | None, key: str, model: str, serving: ServingOptions) -> Endpoint:
    """Find the server that editors are to use, which tells its models and their context."""
    if attach is not None:
        return completing(answering(attach, key, model))
    server = found(serving, key, model)
    if server is None:
        where = usual_address(serving) or "a port"
        what = f"no LocalSpec{f' with {model}' if model else ''} answers at {where}"
        raise UsageError(f"{what}: start one with `localspec serve NAME`, or name it with --attach")
    return completing(server)


def show(connect: Callable[[Endpoint], Connection], server: Endpoint) -> None:
    """Print what to put where, without the key."""
    connection = connect(without_key(server))
    click.echo(f"# {connection.how}")
    click.echo(connection.text, nl=False)


def write(connect: Callable[[Endpoint], Connection], server: Endpoint) -> None:
    """Put it into the program's own file, and keep what was there."""
    change, shown = connect(server).change, connect(without_key(server))
    if change is None:
        told = f"{shown.how}\n{shown.text}".strip()
        raise UsageError(f"this has no file that could be written: {told}")
    if not apply(change):
        click.echo(f"{change.path} has it already")
    click.echo(shown.how)


def without_key(server: Endpoint) -> Endpoint:
    return replace(server, key=server.key and HIDDEN)


def apply(change: Change) -> bool:
    """Change a file, through a link if it is one; whether there was something to change."""
    path = change.path.resolve()
    there = path.exists()
    try:
        before = path.read_bytes().decode() if there else ""
        after = as_lines_end(change.apply(before.removeprefix("\ufeff")), before)
        if after == before:
            return False
        if there:
            shutil.copy2(path, f"{path}{BACKUP}")
        atomic_write.write(path, after)
        if there:
            shutil.copymode(f"{path}{BACKUP}", path)
    except (OSError, UnicodeDecodeError, UsageError) as error:
        raise UsageError(f"{path} is left as it is: {error}") from error
    kept = f"; what it was is in {path}{BACKUP}" if there else ""
    click.echo(f"{path} is written{kept}")
    return True


def as_lines_end(text: str, before: str) -> str:
    """Keep the mark at the beginning and the ends of lines that a file has."""
    if "\r\n" in before:
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return "\ufeff" + text if before.startswith("\ufeff") else text
