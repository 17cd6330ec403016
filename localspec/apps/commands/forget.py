"""The command `localspec forget`: the end of what was kept to draft from and to decide by."""

from __future__ import annotations

import click

from localspec.core.corpus import stored
from localspec.running.memory.machine import size
from localspec.running.runtime.decisions import kept_temperatures
from localspec.running.runtime.drafter_choice import drop_choices


@click.command()
def forget() -> None:
    """Remove kept replies, indexes, and who drafts for a model.

    Replies are kept by --learn, and who drafts by `bench`. The temperatures of `decide --calibrate`
    are removed, too.

    The files of a corpus stay, and are indexed anew when it is used again. What runs now goes on
    with what it has loaded until it ends.
    """
    removed, choices, calibrated = stored.forget(), drop_choices(), kept_temperatures.drop_all()
    kinds = [amount(removed)] if removed != stored.NOTHING else []
    if choices:
        kinds.append(f"who drafts for {choices} model{'s' * (choices > 1)}")
    if calibrated:
        kinds.append(f"the temperatures of {calibrated} model{'s' * (calibrated > 1)}")
    click.echo(f"removed {' and '.join(kinds)}" if kinds else "there was nothing to remove")


def amount(totals: stored.Stored) -> str:
    """Say how much is stored."""
    of_replies = "1 reply" if totals.replies == 1 else f"{totals.replies:,} replies"
    of_indexes = "1 index" if totals.indexes == 1 else f"{totals.indexes:,} indexes"
    return (
        f"{of_replies} ({size(totals.reply_bytes)}) and {of_indexes} of texts to draft from "
        f"({size(totals.index_bytes)})"
    )
