"""Print how an editor or another program connects to a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import click

from localspec.clients.editors import Connection
from localspec.clients.endpoint import Endpoint
from localspec.clients.running import configured_endpoint, endpoint_at, usual_address, with_fill_in
from localspec.commands.configuration import HIDDEN
from localspec.errors import UsageError
from localspec.server.options import ServingOptions


def find_server(attach: str | None, key: str, model: str, serving: ServingOptions) -> Endpoint:
    """Find the server for editors, and ask it for its models and their context."""
    if attach is not None:
        return with_fill_in(endpoint_at(attach, key, model))
    server = configured_endpoint(serving, key, model)
    if server is None:
        address = usual_address(serving) or "a port"
        problem = f"no LocalSpec{f' with {model}' if model else ''} answers at {address}"
        raise UsageError(
            f"{problem}: start one with `localspec serve NAME`, or name it with --attach"
        )
    return with_fill_in(server)


def print_settings(connect: Callable[[Endpoint], Connection], server: Endpoint) -> None:
    """Print the settings and where they belong, without the key."""
    connection = connect(replace(server, key=server.key and HIDDEN))
    click.echo(f"# {connection.place}")
    if server.key:
        click.echo(f"# write the server's API key in place of {HIDDEN}")
    click.echo(connection.text, nl=False)
