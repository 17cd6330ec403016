"""Pull a model for a command, and report what is done."""

from __future__ import annotations

from collections.abc import Iterator

import click

from localspec.commands.progress_bar import Progress
from localspec.memory.machine import size
from localspec.pulling import pull
from localspec.pulling.resolve import PullPlan, order


def fetch(name: str, wish: str, draft: str = "", *, dry_run: bool = False) -> None:
    wanted = order(name, wish, draft)
    for line in announced(wanted):
        click.echo(line)
    if dry_run:
        pull.room(wanted)
        return
    with Progress(sum(part.bytes for part in wanted.parts)) as progress:
        found = pull.pull(wanted, progress, lambda text: click.echo(text, err=True))
    click.echo(f"{found.name} is here: localspec chat {found.name}")


def announced(wanted: PullPlan) -> Iterator[str]:
    yield f"{wanted.name}, {wanted.weights} for {wanted.engine}"
    for part, role in zip(wanted.parts, ("model", wanted.drafter), strict=False):
        what = f"{len(part.files)} file{'s' * (len(part.files) != 1)}, {size(part.bytes)}"
        yield f"  {role:<8} {part.source}" + (f"  ({what})" if part.files else "")
    yield f"  {size(wanted.missing)} to download"
