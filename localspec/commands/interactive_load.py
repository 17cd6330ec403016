"""Load for a user at a terminal: offer to pull what is missing, and report concessions."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from localspec.commands.loading_line import CLEAR, LoadingLine
from localspec.commands.question import drop_typed_input
from localspec.errors import NotPulled, PullError
from localspec.memory.training import beyond_training
from localspec.models import recent, trial_process
from localspec.models.locate import ModelFiles, locate
from localspec.pulling.at_hand import with_a_way_on
from localspec.pulling.pace import expectation
from localspec.runtime.loaded_pair import PairFiles
from localspec.runtime.loading import Loading, load_pair
from localspec.runtime.runtime import Runtime


def loaded(model: str, draft: str | None, loading: Loading) -> Runtime:
    """Load a model or a pair, pulled first if that is wished."""
    found = pulled(model, loading)
    places = PairFiles.around(found, draft, loading.backend, alone=loading.alone)
    return opened(model, places, loading)


def opened(name: str, places: PairFiles, loading: Loading, *, line_changes: bool = True) -> Runtime:
    """Load a pair that is here; say what is waited for, and what was conceded."""
    with LoadingLine(name, changes=line_changes) as line, waiting_told():
        runtime = load_pair(places, loading, line)
    tell(runtime, loading.options.context)
    recent.remember(name)
    return runtime


@contextmanager
def waiting_told() -> Iterator[None]:
    """Say what is waited for, where a driver takes long to try a model."""
    log, telling = logging.getLogger(trial_process.__name__), logging.StreamHandler()
    above = CLEAR if sys.stderr.isatty() else ""
    telling.setFormatter(logging.Formatter(f"{above}localspec: %(message)s"))
    log.addHandler(telling)
    try:
        yield
    finally:
        log.removeHandler(telling)


def pulled(model: str, loading: Loading) -> ModelFiles:
    """Require that a model is here, or pull it if a user at a terminal agrees."""
    try:
        return locate(model, loading.backend)
    except NotPulled as error:
        if not offered(str(error), model, loading):
            raise
        from localspec.commands.pull import fetch  # the hub's client takes a third of a start

        try:
            fetch(model, loading.backend)
        except PullError as failure:
            raise with_a_way_on(failure, model, loading.backend) from failure
    return locate(model, loading.backend)


def offered(why: str, model: str, loading: Loading) -> bool:
    """Ask at a terminal whether to pull a model now, and tell how fast it would be."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    click.echo(why, err=True)
    if outlook := expectation(model, loading.backend, loading.limits):
        click.echo(outlook, err=True)
    drop_typed_input()
    return click.confirm("Pull it now?", err=True)


def tell(runtime: Runtime, context: int | None = None) -> None:
    """Report concessions, advice, a context beyond training, and vocabularies that differ."""
    plan, target = runtime.known.plan, runtime.known.target
    for concession in plan.concessions if plan else ():
        click.echo(f"localspec: {concession.what} ({concession.why})", err=True)
    for each in runtime.known.advice:
        click.echo(f"localspec: {each}", err=True)
    if plan and target:
        note = beyond_training(plan.options, target.footprint.context, context)
        if note:
            click.echo(f"localspec: {note}", err=True)
    pairing = runtime.known.pairing
    if pairing and pairing.difference:
        click.echo(
            f"localspec: the draft model has another vocabulary ({pairing.difference}); it can "
            f"draft {pairing.share:.0%} of the target's tokens",
            err=True,
        )
