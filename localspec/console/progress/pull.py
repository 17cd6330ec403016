"""Pull a model for a command, and report what is done."""

from __future__ import annotations

from collections.abc import Iterator

import click

from localspec.base.errors import HubUnreachable
from localspec.console.progress.progress_bar import Progress
from localspec.running.memory.machine import size
from localspec.running.memory.planner import Limits
from localspec.running.models.catalogue import find
from localspec.running.pulling import pull
from localspec.running.pulling.estimate import fitted_offer, size_of_drafter
from localspec.running.pulling.pull_plan import PullPlan
from localspec.running.pulling.resolve import pull_plan

SOURCE = "/"  # in what names a source, and no model of the catalogue


def fetch(name: str, backend: str, draft: str = "", *, dry_run: bool = False) -> None:
    try:
        plan = pull_plan(name, backend, draft)
    except HubUnreachable as error:
        if not dry_run or SOURCE in name:
            raise
        click.echo("\n".join(catalogue_lines(name, backend, draft)))
        click.echo(f"localspec: these are sizes of the catalogue: {error}", err=True)
        return
    for line in plan_lines(plan):
        click.echo(line)
    if dry_run:
        pull.require_disk_space(plan)
        return
    with Progress(sum(part.bytes for part in plan.parts)) as progress:
        pair = pull.pull(plan, progress, lambda text: click.echo(text, err=True))
    click.echo(f"{pair.name} is here: localspec chat {pair.name}")


def catalogue_lines(full_name: str, backend: str, draft: str) -> Iterator[str]:
    """Describe the download by the catalogue's sizes."""
    name, _, weights = full_name.partition(":")
    engine, offer, weights, model = fitted_offer(find(name), backend, weights, Limits())
    beside = 0 if draft else size_of_drafter(offer, engine)
    yield f"{name}, {weights} for {engine}"
    yield f"  {'model':<9} {model.source}  (about {size(model.bytes)})"
    if draft or offer.draft:
        about = f"  (about {size(beside)})" if beside else ""
        yield f"  {'model' if draft else offer.drafter:<9} {draft or offer.draft}{about}"
    if offer.projector:
        yield f"  {'projector':<9} {offer.projector}  (about {size(offer.projector_bytes)})"
    total = model.bytes + beside + offer.projector_bytes
    yield f"  about {size(total)} to download, less what is here"


def plan_lines(plan: PullPlan) -> Iterator[str]:
    yield f"{plan.name}, {plan.weights} for {plan.engine}"
    roles = (("model", plan.target), (plan.drafter, plan.draft), ("projector", plan.projector))
    for role, part in roles:
        if part:
            count = max(len(part.files), 1)
            amount = f"{count} file{'s' * (count != 1)}, {size(part.bytes)}"
            yield f"  {role:<9} {part.source}" + (f"  ({amount})" if part.bytes else "")
    if plan.blind:
        yield f"  no projector: {plan.blind}"
    places = dict.fromkeys(str(part.folder) for part in plan.parts if part.folder)
    is_sized = all(part.bytes for part in plan.parts if part.folder)
    amount = size(plan.missing) if is_sized else "an unknown number of bytes"
    yield f"  {amount} to download" + (f", to {' and '.join(places)}" if places else "")
