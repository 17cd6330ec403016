"""Lines to whoever started a command, on standard error."""

from __future__ import annotations

import click


def tell(line: str) -> None:
    """Report something to whoever started the command."""
    click.echo(f"localspec: {line}", err=True)
