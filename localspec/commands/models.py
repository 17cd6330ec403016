"""The commands for models by name: pull, list, show, rm, verify-files, add."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from localspec.commands import model_names
from localspec.commands.options.declare import TEXT, flag, option, options, read, required
from localspec.commands.options.loading import EngineOptions
from localspec.errors import BackendError, DoesNotFit, LocalSpecError, PullError, UsageError
from localspec.memory.machine import Machine, size
from localspec.memory.planner import Limits, there
from localspec.models import catalogue, catalogue_file, store
from localspec.models.catalogue import entries, offer_for
from localspec.models.engines import backend, spec, specs, taker
from localspec.models.entry import Entry, Offer
from localspec.models.sources import LocalFiles, Package, Source, source
from localspec.pulling.at_hand import with_a_way_on
from localspec.pulling.estimate import added, fitting
from localspec.pulling.pace import Pace, pace, told
from localspec.system.fingerprint import digest

NAME = click.Argument(["name"], metavar="NAME", shell_complete=model_names.listed)
PULLED = click.Argument(["name"], metavar="NAME", shell_complete=model_names.pulled)
MISSING = "engine missing"


@dataclass(frozen=True, slots=True)
class PullOptions:
    draft: str = option(
        TEXT, "Pull this drafter in place of the listed one.", "NAME|SOURCE", default=""
    )
    dry_run: bool = flag("Say what would be downloaded, and download nothing.")


@click.command(params=[NAME, *options(EngineOptions, PullOptions)])
@click.pass_context
def pull(context: click.Context, name: str) -> None:
    """Download a model and what drafts for it.

    Write NAME or NAME:WEIGHTS of the catalogue, or hf:ORG/REPOSITORY[:FILE] of the hub. An
    interrupted download continues where it stopped. A model counts as pulled once all its files
    are here, their checksums are right, and its engine ran it.
    """
    from localspec.commands.pull import fetch  # the hub's client takes a third of a start

    wanted = read(context, PullOptions)
    wish = read(context, EngineOptions).backend
    try:
        fetch(name, wish, wanted.draft, dry_run=wanted.dry_run)
    except PullError as error:
        raise with_a_way_on(error, name, wish) from error


@click.command("list", params=options(EngineOptions))
@click.pass_context
def list_(context: click.Context) -> None:
    """List the models that are here, and those to pull."""
    here, wish = store.everything(), read(context, EngineOptions).backend
    known = {pulled.name for pulled in here}
    rows: list[tuple[str, ...]] = [("NAME", "WEIGHTS", "SIZE", "ENGINE", "DRAFTER", "")]
    rows += map(pulled_row, here)
    others = (entry for entry in entries().values() if entry.name not in known)
    rows += (available_row(entry, wish) for entry in others)
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def pulled_row(pulled: store.PulledPair) -> tuple[str, ...]:
    whole = all(held.whole for held in pulled.helds)
    state = "files are missing" if not whole else "here" if pulled.engine in specs() else MISSING
    total = size(pulled.bytes)
    drafter = with_size(pulled.drafter, pulled.draft.bytes if pulled.draft else 0)
    return pulled.name, pulled.weights, total, pulled.engine, drafter, state


def available_row(entry: Entry, wish: str) -> tuple[str, ...]:
    able = [name for name, each in specs().items() if each.format in entry.offers]
    if not able:
        kind, offer = next(iter(entry.offers.items()))
        weights, first = next(iter(offer.weights.items()))
        return entry.name, weights, size(first.bytes), kind, offer.drafter, MISSING
    engine = wish if wish in able else able[0]
    offer, place = offer_for(entry, engine), machine(engine)
    weights = next(iter(offer.weights))
    state = MISSING
    if isinstance(offer.weights[weights].source, Package):
        state = "comes with a package"
    elif place is not None:
        try:
            weights = fitting(entry, engine, "", place)
            state = f"fits, {speed(entry, engine, weights)}"
        except DoesNotFit:
            state = "does not fit"
    total = size(offer.weights[weights].bytes)
    drafter = with_size(offer.drafter, added(offer, engine))
    return entry.name, weights, total, engine, drafter, state


def speed(entry: Entry, engine: str, weights: str) -> str:
    """Say how fast weights of the catalogue would be here."""
    count = offer_for(entry, engine).weights[weights].bytes
    return told(paces(engine).tokens_a_second(count, entry.active_share))


@cache
def paces(engine: str) -> Pace:
    return pace(engine, Limits())


def with_size(drafter: str, count: int) -> str:
    """Name a drafter with its size, where it has one of its own that is known."""
    return f"{drafter} {size(count)}" if count else drafter


@cache
def machine(engine: str) -> Machine | None:
    """Ask an engine for its memory, if it is installed and a model is for it."""
    try:
        return there(engine, Limits())
    except BackendError:
        return None


@click.command(params=[NAME])
def show(name: str) -> None:
    """Describe a model of the catalogue, or one that was pulled.

    Says where its files come from, which of them are here, and how it agrees with its draft model.
    """
    bare = name.partition(":")[0]
    pulled = store.find(name)
    if bare in entries():
        for line in described(entries()[bare]):
            click.echo(line)
    elif not pulled:
        catalogue.find(bare)
    for each in pulled:
        click.echo("\n".join(shown(each)))


def described(entry: Entry) -> Iterator[str]:
    yield f"{entry.name}: {entry.about}"
    facts = (
        ("family", entry.family),
        ("parameters", entry.parameters),
        ("licence", entry.licence),
        ("context", f"{entry.context:,} tokens" if entry.context else ""),
        ("good at", ", ".join(entry.good_at)),
        ("sampling", ", ".join(f"{key} {value:g}" for key, value in entry.sampling.items())),
        ("checked", "yes" if entry.checked else "not yet: sizes are as published"),
    )
    for key, value in facts:
        if value:
            yield f"  {key:<11}{value}"
    for kind, offer in entry.offers.items():
        yield f"  {kind:<11}{drafting(offer)}"
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


def shown(pulled: store.PulledPair) -> Iterator[str]:
    yield f"here: {pulled.weights} for {pulled.engine}, {size(pulled.bytes)}"
    yield f"  model    {pulled.target.path}"
    if pulled.draft is None:
        return
    yield f"  {pulled.drafter:<9}{pulled.draft.path}"
    if pulled.drafter == "model":
        yield from agreement(pulled.engine, pulled.target.path, pulled.draft.path)


def agreement(engine: str, target: Path, draft_path: Path) -> Iterator[str]:
    """Describe how a pair agrees: tokens shared, special tokens, and templates."""
    from localspec.models import trial  # only here: it takes time to import

    found = trial.vocabularies(engine, target, draft_path)
    yield f"  tokens   {found.share:.1%} shared" + (
        f"; {found.difference}" if found.difference else ""
    )
    ours, theirs = backend(engine).inspect(target), backend(engine).inspect(draft_path)
    same = ours.chat_template == theirs.chat_template
    state = "the same in both" if same else "another one; the model's own is used"
    yield f"  template {state}"


@click.command(params=[PULLED])
def rm(name: str) -> None:
    """Remove a model from this machine.

    Files that another model uses stay.
    """
    found = [each for each in store.everything() if named(each, name)]
    if not found:
        raise UsageError(f"{name} is not here; `localspec list` shows what is")
    click.echo(f"{name} is gone; {size(forget(found))} are free again")


def forget(pairs: Sequence[store.PulledPair]) -> int:
    """Forget pairs, and remove what was downloaded for them alone; return the bytes freed."""
    for pulled in pairs:
        store.forget(pulled)
    used = {file.path for each in store.everything() for held in each.helds for file in held.files}
    freed = 0
    for pulled in pairs:
        for held in pulled.helds:
            if held.source.startswith(("hf:", "http")):
                freed += sum(removed(file.path) for file in held.files if file.path not in used)
    return freed


def named(pulled: store.PulledPair, name: str) -> bool:
    bare, _, weights = name.partition(":")
    return pulled.name == bare and weights in ("", pulled.weights)


def removed(path: Path) -> int:
    """Remove a file, and its blob in the hub's cache; return the bytes freed."""
    if not os.path.lexists(path):
        return 0
    blob = path.resolve()
    count = blob.stat().st_size if blob.exists() else 0
    path.unlink()
    if blob != path and blob.exists():
        blob.unlink()
    return count


@click.command("verify-files", params=[PULLED])
def verify_files(name: str) -> None:
    """Compare a model's files with their checksums, as they were when it was pulled."""
    found = [each for each in store.everything() if named(each, name)]
    if not found:
        raise UsageError(f"{name} is not here; `localspec list` shows what is")
    wrong = 0
    for file in (file for each in found for held in each.helds for file in held.files):
        if not file.path.exists():
            state = "is missing"
        elif file.sum and digest(file.path, file.large) != file.sum:
            state = "has changed"
        else:
            state = "is right"
        wrong += state != "is right"
        click.echo(f"{file.path.name} {state}")
    if wrong:
        files = "one file is" if wrong == 1 else f"{wrong} files are"
        raise PullError(f"{files} not what was pulled: localspec pull {name}")


@dataclass(frozen=True, slots=True)
class AddOptions:
    target: str = required(
        TEXT, "Where its weights are: hf:ORG/REPOSITORY[:FILE], or a path.", "SOURCE"
    )
    draft: str = option(TEXT, "Draft with this model.", "NAME|SOURCE", default="")
    about: str = option(TEXT, "Describe it in a sentence.", default="a model of one's own")
    size: str = option(TEXT, "Size of its weights, e.g. 5.0GB.", "SIZE", default="1GB")
    format: str = option(
        TEXT, "Format of its files, e.g. gguf. Without it, by the name of the target.", default=""
    )


@click.command(params=[NAME, *options(AddOptions)])
@click.pass_context
def add(context: click.Context, name: str) -> None:
    """Add a model to your own catalogue, which is read beside the built-in one."""
    wanted = read(context, AddOptions)
    if not catalogue_file.NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: it must match {catalogue_file.NAME.pattern}")
    text = described_in_toml(name, wanted)
    place = catalogue.own()
    before = place.read_text(encoding="utf-8") if place.exists() else ""
    if name in (catalogue_file.read(place) if before else {}):
        raise UsageError(f"{place} has {name} already: edit it there")
    place.parent.mkdir(parents=True, exist_ok=True)
    part = place.with_suffix(".part")
    part.write_text(before + text, encoding="utf-8")
    try:
        catalogue_file.read(part)
    except LocalSpecError:
        part.unlink()
        raise
    part.replace(place)
    click.echo(f"{name} is in {place}")


def described_in_toml(name: str, wanted: AddOptions) -> str:
    where, draft = source(wanted.target), quoted(wanted.draft)
    table = f"{quoted(name)}.{quoted(wanted.format or format_of(where))}"
    drafter = f'drafter = "model"\ndraft = {draft}\n' if wanted.draft else 'drafter = "none"\n'
    return (
        f"\n[{quoted(name)}]\nabout = {quoted(wanted.about)}\n"
        f'licence = "see where it comes from"\n\n[{table}]\n{drafter}\n'
        f"[{table}.weights]\n"
        f"as-given = {{ from = {quoted(str(where))}, size = {quoted(wanted.size)} }}\n"
    )


def format_of(where: Source) -> str:
    """The format that an engine would take a source for; of a hub's, the one that it names."""
    if isinstance(where, LocalFiles):
        return spec(taker(where.path)).format
    formats = [each.format for each in specs().values()]
    return next((each for each in formats if each in str(where).lower()), formats[0])


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


COMMANDS = (pull, list_, show, rm, verify_files, add)
