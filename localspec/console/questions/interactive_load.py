"""Load for a user at a terminal: offer to pull what is missing, and report concessions."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from localspec.base.errors import NotPulled, PullError, UsageError
from localspec.base.system import kept_json
from localspec.console import notices
from localspec.console.progress.loading_line import CLEAR, LoadingLine
from localspec.console.questions.question import drop_typed_input
from localspec.running.memory.plan import beyond_training
from localspec.running.models import recent, trial_process
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.pulling.at_hand import who_sees, with_a_way_on
from localspec.running.pulling.pace import expectation
from localspec.running.runtime.drafter_choice import pair_files
from localspec.running.runtime.loaded_facts import LoadedFacts
from localspec.running.runtime.loading import Loading, load_pair
from localspec.running.runtime.pair_files import PairFiles
from localspec.running.runtime.phases import Phase, TellPhase, unheard
from localspec.running.runtime.runtime import Runtime
from localspec.running.runtime.vector_loading import load_vector_files
from localspec.running.runtime.vector_runtime import VectorRuntime


def locate_and_load(
    name_or_path: str, draft: str | None, loading: Loading, *, shown: bool = False
) -> Runtime:
    """Load a model or a pair; pull it first if it is missing and the user agrees.

    One that is to be shown pictures and takes none is refused before it is loaded.
    """
    target = locate_or_pull(name_or_path, loading)
    files = pair_files(target, draft, loading)
    if shown and "image" not in loading.media_of(files):
        who = who_sees(loading.backend)
        raise UsageError(f"{name_or_path} reads text only, and takes no pictures; {who}")
    return load_and_report(name_or_path, files, loading)


def load_and_report(
    name_or_path: str,
    files: PairFiles,
    loading: Loading,
    *,
    line_changes: bool = True,
    tell: TellPhase = unheard,
) -> Runtime:
    """Load a pair that is here; report its progress, and what was conceded."""
    with LoadingLine(name_or_path, changes=line_changes) as line, report_warnings():
        runtime = load_pair(files, loading, to_both(line, tell))
    report_concessions(runtime.facts, loading.options.context)
    recent.remember(name_or_path)
    return runtime


def load_vectors_and_report(
    name_or_path: str,
    files: ModelFiles,
    loading: Loading,
    *,
    line_changes: bool = True,
    tell: TellPhase = unheard,
) -> VectorRuntime:
    """Load a model of whole texts that is here, as `load_and_report` does."""
    with LoadingLine(name_or_path, changes=line_changes) as line, report_warnings():
        runtime = load_vector_files(name_or_path, files, loading, to_both(line, tell))
    report_concessions(runtime.facts)  # the context may be meant for the model beside it
    return runtime


def to_both(one: TellPhase, other: TellPhase) -> TellPhase:
    def tell(phase: Phase) -> None:
        one(phase)
        other(phase)

    return tell


@contextmanager
def report_warnings() -> Iterator[None]:
    """Print warnings of loading: a driver takes long to try a model, or nothing can be kept."""
    logs = [logging.getLogger(module.__name__) for module in (trial_process, kept_json)]
    handler = logging.StreamHandler()
    line_start = CLEAR if sys.stderr.isatty() else ""
    handler.setFormatter(logging.Formatter(f"{line_start}localspec: %(message)s"))
    for log in logs:
        log.addHandler(handler)
    try:
        yield
    finally:
        for log in logs:
            log.removeHandler(handler)


def locate_or_pull(name_or_path: str, loading: Loading) -> ModelFiles:
    """Find a model that is here, or pull it if a user at a terminal agrees."""
    try:
        return locate(name_or_path, loading.backend)
    except NotPulled as error:
        if not agrees_to_pull(str(error), name_or_path, loading):
            raise
        from localspec.console.progress.pull import (
            fetch,  # the hub's client takes a third of a start
        )

        try:
            fetch(name_or_path, loading.backend)
        except PullError as failure:
            raise with_a_way_on(failure, name_or_path, loading.backend) from failure
    return locate(name_or_path, loading.backend)


def agrees_to_pull(why: str, name: str, loading: Loading) -> bool:
    """Ask at a terminal whether to pull a model now, and report how fast it would be."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    click.echo(why, err=True)
    if outlook := expectation(name, loading.backend, loading.limits):
        click.echo(outlook, err=True)
    drop_typed_input()
    return click.confirm("Pull it now?", err=True)


def report_concessions(facts: LoadedFacts, context: int | None = None) -> None:
    """Report concessions, advice, a context beyond training, and vocabularies that differ."""
    plan, target = facts.plan, facts.target
    for concession in plan.concessions if plan else ():
        notices.tell(f"{concession.what} ({concession.why})")
    for sentence in facts.advice:
        notices.tell(sentence)
    if plan and target:
        note = beyond_training(plan.options, target.footprint.context, context)
        if note:
            notices.tell(note)
    pairing = facts.pairing
    if pairing and pairing.difference:
        notices.tell(
            f"the draft model has another vocabulary ({pairing.difference}); it can draft "
            f"{pairing.share:.0%} of the target's tokens"
        )
