"""The commands for models by name: pull, list, show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click

from localspec.commands import model_names
from localspec.commands.columns import columns
from localspec.commands.options.declare import TEXT, flag, option, options, read
from localspec.commands.options.loading import EngineOptions
from localspec.errors import BackendError, DoesNotFit, PullError
from localspec.memory.machine import Machine, size
from localspec.memory.planner import Limits, machine_within
from localspec.models import catalogue, store
from localspec.models.catalogue import entries, offer_for
from localspec.models.engines import backend, specs
from localspec.models.entry import Entry, Offer
from localspec.models.seen_devices import seen_devices
from localspec.models.sources import LocalFiles, Package
from localspec.pulling.at_hand import with_a_way_on
from localspec.pulling.estimate import fitting, size_of_drafter
from localspec.pulling.pace import Pace, pace, speed_text
from localspec.vector_model import DOES

NAME = click.Argument(["name"], metavar="NAME", shell_complete=model_names.listed)
PULLED = click.Argument(["name"], metavar="NAME", shell_complete=model_names.pulled)
MISSING = "engine missing"
TOO_LARGE = "does not fit"


@dataclass(frozen=True, slots=True)
class PullOptions:
    draft: str = option(
        TEXT, "Drafter to pull instead of the listed one.", "NAME|SOURCE", default=""
    )
    dry_run: bool = flag("Report of what would be downloaded, without downloading it.")


@click.command(params=[NAME, *options(EngineOptions, PullOptions)])
@click.pass_context
def pull(context: click.Context, name: str) -> None:
    """Download a model and what drafts for it.

    Write NAME or NAME:WEIGHTS of the catalogue, or hf:ORG/REPOSITORY[:FILE] of the hub. An
    interrupted download continues where it stopped. A model counts as pulled once all its files
    are here, their checksums are right, and its engine ran it.
    """
    from localspec.commands.pull import fetch  # the hub's client takes a third of a start

    options = read(context, PullOptions)
    backend = read(context, EngineOptions).backend
    try:
        fetch(name, backend, options.draft, dry_run=options.dry_run)
    except PullError as error:
        raise with_a_way_on(error, name, backend) from error


@dataclass(frozen=True, slots=True)
class ListOptions:
    json: bool = flag("List as JSON.")


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A line of the list."""

    name: str
    weights: str
    bytes: int
    engine: str  # or the format, where no engine here takes it
    drafter: str
    drafter_bytes: int  # beside the model; 0: none, or it is not known
    state: str
    speed: str = ""  # to expect of it, in words
    projector_bytes: int = 0  # of the file by which it sees; 0: it reads text only

    def row(self) -> tuple[str, ...]:
        drafter = self.drafter + (f" {size(self.drafter_bytes)}" if self.drafter_bytes else "")
        projector = size(self.projector_bytes) if self.projector_bytes else ""
        state = f"{self.state}, {self.speed}" if self.speed else self.state
        return self.name, self.weights, size(self.bytes), self.engine, drafter, projector, state


@click.command("list", params=options(EngineOptions, ListOptions))
@click.pass_context
def list_(context: click.Context) -> None:
    """List the models that are here, and those to pull."""
    pairs, backend = store.everything(), read(context, EngineOptions).backend
    names = {pulled.name for pulled in pairs}
    models = list(map(pulled_row, pairs))
    others = (entry for entry in entries().values() if entry.name not in names)
    models += (available_row(entry, backend) for entry in others)
    if read(context, ListOptions).json:
        click.echo(json.dumps({"models": [*map(asdict, models)]}, indent=2))
        return
    head = ("NAME", "WEIGHTS", "SIZE", "ENGINE", "DRAFTER", "PROJECTOR", "")
    click.echo(columns([head, *(model.row() for model in models)]))


def pulled_row(pulled: store.PulledPair) -> ListedModel:
    whole = all(model.whole for model in pulled.models)
    state = "files are missing" if not whole else "here" if pulled.engine in specs() else MISSING
    return ListedModel(
        pulled.name,
        pulled.weights,
        pulled.bytes,
        pulled.engine,
        pulled.drafter,
        pulled.draft.bytes if pulled.draft else 0,
        state,
        projector_bytes=pulled.projector.bytes if pulled.projector else 0,
    )


def available_row(entry: Entry, backend: str) -> ListedModel:
    able = [name for name, engine_spec in specs().items() if engine_spec.format in entry.offers]
    if not able:
        kind, offer = next(iter(entry.offers.items()))
        weights, first = next(iter(offer.weights.items()))
        return ListedModel(entry.name, weights, first.bytes, kind, offer.drafter, 0, MISSING)
    engine = backend if backend in able else able[0]
    offer, memory = offer_for(entry, engine), machine(engine)
    weights = next(iter(offer.weights))
    state, words = MISSING, ""
    origin = offer.weights[weights].source
    if isinstance(origin, Package):
        state = "comes with a package"
    elif isinstance(origin, LocalFiles):
        state = "your own file" if origin.path.exists() else "its file is missing"
    elif memory is not None:
        try:
            weights = fitting(entry, engine, "", memory)
            state = "fits"
            words = speed(entry, engine, weights) if entry.kind == "text" else ""
        except DoesNotFit:
            state = TOO_LARGE
    return ListedModel(
        entry.name,
        weights,
        offer.weights[weights].bytes,
        engine,
        offer.drafter,
        size_of_drafter(offer, engine),
        state,
        words,
        offer.projector_bytes,
    )


def speed(entry: Entry, engine: str, weights: str) -> str:
    """Estimate the speed of the catalogue's weights on this machine, in words."""
    count = offer_for(entry, engine).weights[weights].bytes
    pace = paces(engine)
    return speed_text(pace, pace.tokens_a_second(count, entry.active_share))


@cache
def paces(engine: str) -> Pace:
    return pace(engine, Limits(), seen_devices(engine))


@cache
def machine(engine: str) -> Machine | None:
    """Return the memory for an engine's models; None if the engine cannot be used."""
    try:
        return machine_within(seen_devices(engine), Limits())
    except BackendError:
        return None


@dataclass(frozen=True, slots=True)
class ShowOptions:
    json: bool = flag("Description as JSON.")


@click.command(params=[NAME, *options(ShowOptions)])
@click.pass_context
def show(context: click.Context, name: str) -> None:
    """Describe a model of the catalogue, or one that was pulled.

    It says where its files come from, which of them are here, and how it agrees with its draft
    model.
    """
    bare = name.partition(":")[0]
    pulled = store.find(name)
    entry = entries().get(bare)
    if not (entry or pulled):
        catalogue.find(name if "/" in name else bare)
    if read(context, ShowOptions).json:
        data = {"catalogue": entry and as_data(entry), "pulled": [*map(asdict, pulled)]}
        click.echo(json.dumps(data, indent=2, default=str))
        return
    for line in describe_entry(entry) if entry else ():
        click.echo(line)
    for pair in pulled:
        click.echo("\n".join(describe_pulled(pair)))


def as_data(entry: Entry) -> dict[str, Any]:
    """Return an entry of the catalogue as JSON has it, with sources as they are written."""
    data = asdict(entry)
    for format, offer in entry.offers.items():
        for name, weights in offer.weights.items():
            data["offers"][format]["weights"][name]["source"] = str(weights.source)
    return data


def describe_entry(entry: Entry) -> Iterator[str]:
    yield f"{entry.name}: {entry.about}"
    facts = (
        ("family", entry.family),
        ("parameters", entry.parameters),
        ("licence", entry.licence),
        ("context", f"{entry.context:,} tokens" if entry.context else ""),
        ("kind", DOES[entry.kind] if entry.kind != "text" else ""),
        ("good at", ", ".join(entry.good_at)),
        ("sampling", ", ".join(f"{key} {value:g}" for key, value in entry.sampling.items())),
        ("samplers", ", ".join(entry.samplers)),
        ("checked", "yes" if entry.checked else "not yet: sizes are as published"),
    )
    for key, value in facts:
        if value:
            yield f"  {key:<11}{value}"
    for kind, offer in entry.offers.items():
        yield f"  {kind:<11}{drafting(offer)}"
        if offer.projector:
            yield f"    {'projector':<9}{size(offer.projector_bytes):>9}  {offer.projector}"
        for name, weights in offer.weights.items():
            yield f"    {name:<9}{size(weights.bytes):>9}  {weights.source}"


def drafting(offer: Offer) -> str:
    if offer.drafter == "none":
        return "no drafter"
    if offer.drafter == "mtp-inside":
        return "drafts with the head inside it (mtp)"
    taken = f"; {size(offer.draft_bytes)}" if offer.draft_bytes else ""
    kind = "" if offer.drafter == "model" else f", a drafting head ({offer.drafter}{taken})"
    return f"drafts with {offer.draft}{kind}"


def describe_pulled(pulled: store.PulledPair) -> Iterator[str]:
    yield f"here: {pulled.weights} for {pulled.engine}, {size(pulled.bytes)}"
    yield f"  model    {pulled.target.path}"
    if pulled.projector:
        yield f"  projector {pulled.projector.path}"
    if pulled.draft is None:
        return
    yield f"  {pulled.drafter:<9}{pulled.draft.path}"
    if pulled.drafter == "model":
        yield from agreement(pulled.engine, pulled.target.path, pulled.draft.path)


def agreement(engine: str, target: Path, draft_path: Path) -> Iterator[str]:
    """Describe how a pair agrees: tokens shared, special tokens, and templates."""
    from localspec.models import trial  # only here: it takes time to import

    vocabularies = trial.vocabularies(engine, target, draft_path)
    yield f"  tokens   {vocabularies.share:.1%} shared" + (
        f"; {vocabularies.difference}" if vocabularies.difference else ""
    )
    ours, theirs = backend(engine).inspect(target), backend(engine).inspect(draft_path)
    same = ours.chat_template == theirs.chat_template
    state = "the same in both" if same else "another one; the model's own is used"
    yield f"  template {state}"
