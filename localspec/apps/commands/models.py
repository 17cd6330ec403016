"""The commands for models by name: pull, list, show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from localspec.base.errors import PullError
from localspec.console.columns import fitting, terminal_width
from localspec.console.options import model_names
from localspec.console.options.declare import TEXT, flag, option, options, read
from localspec.console.options.loading import EngineOptions
from localspec.interfaces.footprint import DOES
from localspec.running.memory.machine import size
from localspec.running.models import catalogue, store
from localspec.running.models.catalogue import entries
from localspec.running.models.engines import Engine, engine
from localspec.running.models.entry import Entry, Offer
from localspec.running.models.stored_pair import PulledPair
from localspec.running.pulling.at_hand import with_a_way_on
from localspec.running.pulling.listed_model import available_row, pulled_row

NAME = click.Argument(
    ["name"], metavar="NAME", type=model_names.MODEL, shell_complete=model_names.listed
)


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
    from localspec.console.progress.pull import fetch  # the hub's client takes a third of a start

    options = read(context, PullOptions)
    backend = read(context, EngineOptions).backend
    try:
        fetch(name, backend, options.draft, dry_run=options.dry_run)
    except PullError as error:
        raise with_a_way_on(error, name, backend) from error


@dataclass(frozen=True, slots=True)
class ListOptions:
    json: bool = flag("List as JSON.")


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
    rows = [head, *(model.row() for model in models)]
    click.echo(fitting(rows, terminal_width(), spare=("PROJECTOR", "ENGINE", "WEIGHTS", "DRAFTER")))


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


def describe_pulled(pulled: PulledPair) -> Iterator[str]:
    yield f"here: {pulled.weights} for {pulled.engine}, {size(pulled.bytes)}"
    yield f"  model    {pulled.target.path}"
    if pulled.projector:
        yield f"  projector {pulled.projector.path}"
    if pulled.draft is None:
        return
    yield f"  {pulled.drafter:<9}{pulled.draft.path}"
    if pulled.drafter == "model":
        yield from agreement(engine(pulled.engine), pulled.target.path, pulled.draft.path)


def agreement(engine: Engine, target: Path, draft_path: Path) -> Iterator[str]:
    """Describe how a pair agrees: tokens shared, special tokens, and templates."""
    from localspec.running.models import trial  # only here: it takes time to import

    vocabularies = trial.vocabularies(engine, target, draft_path)
    yield f"  tokens   {vocabularies.share:.1%} shared" + (
        f"; {vocabularies.difference}" if vocabularies.difference else ""
    )
    ours, theirs = (engine.backend().inspect(path) for path in (target, draft_path))
    same = ours.chat_template == theirs.chat_template
    state = "the same in both" if same else "another one; the model's own is used"
    yield f"  template {state}"
