"""Lines to whoever started a command, on standard error."""

from __future__ import annotations

import click


def tell(line: str) -> None:
    """Report to who started a server what happens to it."""
    click.echo(f"localspec: {line}", err=True)
