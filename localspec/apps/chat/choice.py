"""The choice of a model where the command names none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from operator import itemgetter

import click

from localspec.apps.chat import session
from localspec.base.errors import LocalSpecError, PullError
from localspec.console.questions.question import drop_typed_input
from localspec.running.memory.machine import size
from localspec.running.memory.planner import current_machine
from localspec.running.models.catalogue import entries
from localspec.running.models.entry import Entry
from localspec.running.models.locate import locate
from localspec.running.models.sources import LocalFiles, Package
from localspec.running.pulling.at_hand import INSTALLED, LATELY, ModelAtHand, at_hand
from localspec.running.pulling.estimate import fitted_offer
from localspec.running.pulling.pace import pace, speed_text
from localspec.running.runtime.loading import Loading

STARTER = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model to talk to: one that is here, or one that could be pulled."""

    name: str
    about: str
    bytes: int
    quick: bool  # enough to talk to
    why: str = ""  # it is at hand; "": it is not
    preference: int = 0  # of its engine


def choose_model(loading: Loading) -> str:
    """Choose the model of the last conversation, else one that the user picks."""
    if name := last_model(loading):
        return name
    machine = MachineFigures(loading)
    candidates = runnable(loading, machine)
    largest = max((model.bytes for model in candidates), default=0)
    better = best_to_pull(loading, machine)
    if better and better.bytes > largest:
        candidates.append(better)
    return pick(candidates, loading) if candidates else ""


def without_asking(loading: Loading) -> str:
    """Choose the model of the last conversation, else the first that was used or pulled."""
    candidates = runnable(loading, MachineFigures(loading))
    return last_model(loading) or next((one.name for one in candidates if one.why != INSTALLED), "")


def last_model(loading: Loading) -> str:
    """Name the model of the last conversation, if it is still here."""
    conversation, _ = session.last()
    if conversation:
        with suppress(LocalSpecError):
            locate(conversation.model, loading.backend)
            return conversation.model
    return ""


class MachineFigures:
    """An engine's memory here, and how fast it reads weights; each is looked at once."""

    def __init__(self, loading: Loading) -> None:
        self.pace = cache(lambda engine: pace(engine, loading.limits))
        self.free_bytes = cache(lambda engine: current_machine(engine, loading.limits).available)


def runnable(loading: Loading, machine: MachineFigures) -> list[Candidate]:
    """List what is here and fits: used lately, then quick ones, the largest of them first."""
    ranked = []
    for model in at_hand(loading.backend):
        with suppress(LocalSpecError):
            engine = model.files.engine
            footprint = engine.backend().inspect(model.files.path)
            if footprint.weight_bytes <= machine.free_bytes(engine):
                candidate = candidate_of(model, machine)
                ranked.append((rank(model, candidate), candidate))
    return [candidate for _, candidate in sorted(ranked, key=itemgetter(0))]


def rank(model: ModelAtHand, candidate: Candidate) -> tuple[int, ...]:
    """Return the order in which models are offered."""
    if model.why == LATELY:
        return (0,)
    return (1, -candidate.bytes) if candidate.quick else (2, candidate.bytes)


def candidate_of(model: ModelAtHand, machine: MachineFigures) -> Candidate:
    reading, entry = machine.pace(model.files.engine), model.entry
    speed = reading.tokens_a_second(model.bytes, entry.active_share if entry else 1.0)
    quick = reading.is_quick(speed, entry)
    about = f"{size(model.bytes)}, {model.why}, {speed_text(reading, speed)}"
    return Candidate(model.name, about, model.bytes, quick, model.why)


def best_to_pull(loading: Loading, machine: MachineFigures) -> Candidate | None:
    """Find the largest model that can be pulled, fits, and is quick enough to talk to.

    One for the preferred engine comes first, whatever the size.
    """
    offers = [
        candidate for entry in entries().values() if (candidate := offer(entry, loading, machine))
    ]
    return max(offers, key=lambda one: (one.preference, one.bytes), default=None)


def offer(entry: Entry, loading: Loading, machine: MachineFigures) -> Candidate | None:
    """Offer an entry of the catalogue, if one can talk to it here."""
    if "chat" not in entry.good_at:
        return None
    with suppress(LocalSpecError):
        engine, offered, _, listed = fitted_offer(entry, loading.backend, "", loading.limits)
        reading = machine.pace(engine)
        speed = reading.tokens_a_second(listed.bytes, entry.active_share)
        quick = reading.is_quick(speed, entry, offered.drafter)
        if quick and not isinstance(listed.source, Package | LocalFiles):
            words = speed_text(reading, speed)
            about = f"{size(listed.bytes)} to download, {words}; {entry.about}"
            preference = engine.spec.preference
            return Candidate(entry.name, about, listed.bytes, quick, preference=preference)
    return None


def pick(candidates: Sequence[Candidate], loading: Loading) -> str:
    """Let the user pick one; where it cannot be pulled, go on with the first that is here."""
    candidate = candidates[0] if len(candidates) == 1 else ask_user(candidates)
    if candidate.why:
        return candidate.name
    from localspec.console.progress.pull import fetch  # the hub's client takes a third of a start

    try:
        fetch(candidate.name, loading.backend)
    except PullError as error:
        if not candidates[0].why:
            raise
        click.echo(f"localspec: {error}; going on with {candidates[0].name}", err=True)
        return candidates[0].name
    return candidate.name


def ask_user(candidates: Sequence[Candidate]) -> Candidate:
    names = [candidate.name for candidate in candidates]
    width = max(map(len, names))
    click.echo("Which model?", err=True)
    for number, candidate in enumerate(candidates, 1):
        click.echo(f"  {number}  {candidate.name:<{width}}  {candidate.about}", err=True)
    drop_typed_input()
    number = click.prompt("Number", default=1, type=click.IntRange(1, len(names)), err=True)
    return candidates[number - 1]
