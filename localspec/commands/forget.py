"""The command `localspec forget`: the end of all texts that were kept to draft from."""

from __future__ import annotations

import click

from localspec.corpus import stored
from localspec.memory.machine import size


@click.command()
def forget() -> None:
    """Remove the replies that --learn kept, and all indexes.

    The files of a corpus stay, and are indexed anew when it is used again. What runs now goes on
    with what it has loaded until it ends.
    """
    gone = stored.forget()
    done = f"removed {amount(gone)}" if gone != stored.NOTHING else "there was nothing to remove"
    click.echo(done)


def amount(kept: stored.Stored) -> str:
    """Say how much is stored."""
    of_replies = "1 reply" if kept.replies == 1 else f"{kept.replies:,} replies"
    of_indexes = "1 index" if kept.indexes == 1 else f"{kept.indexes:,} indexes"
    return (
        f"{of_replies} ({size(kept.reply_bytes)}) and {of_indexes} of texts to draft from "
        f"({size(kept.index_bytes)})"
    )
