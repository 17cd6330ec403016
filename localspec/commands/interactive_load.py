"""Load for somebody at a terminal: offer to pull what is missing, and say what was conceded."""

from __future__ import annotations

import sys

import click

from localspec.errors import NotPulled
from localspec.models.locate import ModelFiles, locate
from localspec.runtime.loaded_pair import PairFiles
from localspec.runtime.loading import Loading, load_pair
from localspec.runtime.runtime import Runtime


def loaded(model: str, draft: str | None, loading: Loading) -> Runtime:
    """Load a model or a pair, pulled first if that is wished."""
    found = pulled(model, loading)
    places = PairFiles.around(found, draft, loading.backend, alone=loading.alone)
    runtime = load_pair(places, loading)
    tell(runtime)
    return runtime


def pulled(model: str, loading: Loading) -> ModelFiles:
    """Find a model's files, which are downloaded first if somebody in a terminal wants that."""
    try:
        return locate(model, loading.backend)
    except NotPulled as error:
        if not offered(str(error)):
            raise
        from localspec.commands.pull import fetch  # the hub's client takes a third of a start

        fetch(model, loading.backend)
    return locate(model, loading.backend)


def offered(why: str) -> bool:
    """Whether somebody who is asked in a terminal wants a model pulled now."""
    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return at_terminal and click.confirm(f"{why}\nPull it now?", err=True)


def tell(runtime: Runtime) -> None:
    """Say what had to be conceded, and if the vocabularies of a pair differ."""
    for concession in runtime.known.plan.concessions if runtime.known.plan else ():
        click.echo(f"localspec: {concession.what} ({concession.why})", err=True)
    pairing = runtime.known.pairing
    if pairing and pairing.difference:
        click.echo(
            f"localspec: the draft model has another vocabulary ({pairing.difference}); it can "
            f"guess {pairing.share:.0%} of the target's tokens",
            err=True,
        )
