"""Devices of other machines, by the addresses of their workers."""

from __future__ import annotations

import os

from click.types import FuncParamType

from localspec.console.options.declare import option
from localspec.interfaces.other_machines import WORKERS

HELP = "Workers whose devices are used, too; `localspec worker` serves them."
FORM = "HOST:PORT,..."


def addresses(value: object) -> str:
    """Read addresses with commas between them."""
    listed = [address.strip() for address in str(value).split(",")]
    for address in listed:
        host, _, port = address.rpartition(":")
        if not host or ":" in host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{address!r} is no worker: write HOST:PORT, e.g. 192.168.1.12:50052")
    return ",".join(dict.fromkeys(listed))


def workers() -> str | None:
    """Declare the option."""
    return option(FuncParamType(addresses), HELP, FORM, envvar=WORKERS)


def use(addresses: str | None) -> None:
    """Let engines, and the processes in which they try models, find the workers."""
    if addresses is not None:
        os.environ[WORKERS] = addresses
