"""The command `localspec forget`: the end of all texts that were kept to draft from."""

from __future__ import annotations

import click

from localspec.core.corpus import stored
from localspec.running.memory.machine import size


@click.command()
def forget() -> None:
    """Remove the replies that --learn kept, and all indexes.

    The files of a corpus stay, and are indexed anew when it is used again. What runs now goes on
    with what it has loaded until it ends.
    """
    removed = stored.forget()
    nothing = removed == stored.NOTHING
    click.echo("there was nothing to remove" if nothing else f"removed {amount(removed)}")


def amount(totals: stored.Stored) -> str:
    """Say how much is stored."""
    of_replies = "1 reply" if totals.replies == 1 else f"{totals.replies:,} replies"
    of_indexes = "1 index" if totals.indexes == 1 else f"{totals.indexes:,} indexes"
    return (
        f"{of_replies} ({size(totals.reply_bytes)}) and {of_indexes} of texts to draft from "
        f"({size(totals.index_bytes)})"
    )
