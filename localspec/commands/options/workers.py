"""Devices of other machines, by the addresses of their workers."""

from __future__ import annotations

import os

import click

from localspec.backend_spec import WORKERS
from localspec.commands.options.declare import option

HELP = "Workers whose devices are used, too; `localspec worker` serves them."
FORM = "HOST:PORT,..."


class Addresses(click.ParamType[str]):
    """Addresses with commas between them."""

    name = "addresses"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        addresses = [address.strip() for address in str(value).split(",")]
        for address in addresses:
            host, _, port = address.rpartition(":")
            if not host or ":" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
                self.fail(f"{address!r} is no worker: write HOST:PORT, e.g. 192.168.1.12:50052")
        return ",".join(dict.fromkeys(addresses))


def workers() -> str | None:
    """Declare the option."""
    return option(Addresses(), HELP, FORM, envvar=WORKERS)


def use(addresses: str | None) -> None:
    """Let engines, and the processes in which they try models, find the workers."""
    if addresses is not None:
        os.environ[WORKERS] = addresses
