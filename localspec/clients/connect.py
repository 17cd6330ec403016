"""Print how an editor or another program connects to a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click

from localspec.clients.editors import Connection
from localspec.clients.endpoint import Endpoint
from localspec.clients.running import answering, completing, found, usual_address
from localspec.commands.configuration import HIDDEN
from localspec.errors import UsageError
from localspec.server.options import ServingOptions


def server_of(attach: str | None, key: str, model: str, serving: ServingOptions) -> Endpoint:
    """Find the server for editors, and ask it for its models and their context."""
    if attach is not None:
        return completing(answering(attach, key, model))
    server = found(serving, key, model)
    if server is None:
        where = usual_address(serving) or "a port"
        what = f"no LocalSpec{f' with {model}' if model else ''} answers at {where}"
        raise UsageError(f"{what}: start one with `localspec serve NAME`, or name it with --attach")
    return completing(server)


def show(connect: Callable[[Endpoint], Connection], server: Endpoint) -> None:
    """Print the settings and where they belong, without the key."""
    connection = connect(replace(server, key=server.key and HIDDEN))
    click.echo(f"# {connection.place}")
    if server.key:
        click.echo(f"# write the server's API key in place of {HIDDEN}")
    click.echo(connection.text, nl=False)
