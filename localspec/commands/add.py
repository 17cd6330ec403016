"""The command `localspec add`: a model of the user's own for the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

import click

from localspec.commands.options.declare import TEXT, option, options, read, required
from localspec.errors import LocalSpecError, UsageError
from localspec.models import catalogue, catalogue_file
from localspec.models.engines import spec, specs, taker
from localspec.models.sources import LocalFiles, Source, source


@dataclass(frozen=True, slots=True)
class AddOptions:
    target: str = required(
        TEXT, "Source of the weights: hf:ORG/REPOSITORY[:FILE], or a path.", "SOURCE"
    )
    draft: str = option(TEXT, "Draft model.", "NAME|SOURCE", default="")
    about: str = option(TEXT, "Description in a sentence.", default="a model of one's own")
    size: str = option(TEXT, "Size of the weights, e.g. 5.0GB.", "SIZE", default="1GB")
    format: str = option(
        TEXT,
        "Format of the files, e.g. gguf.",
        default="",
        otherwise="by the name of the target",
    )


@click.command(params=options(AddOptions))
@click.argument("name")
@click.pass_context
def add(context: click.Context, name: str) -> None:
    """Add a model to your own catalogue, which is read beside the built-in one."""
    options = read(context, AddOptions)
    if not catalogue_file.NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: it must match {catalogue_file.NAME.pattern}")
    text = toml_entry(name, options)
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


def toml_entry(name: str, options: AddOptions) -> str:
    where, draft = source(options.target), toml_text(options.draft)
    table = f"{toml_text(name)}.{toml_text(options.format or format_of(where))}"
    drafter = f'drafter = "model"\ndraft = {draft}\n' if options.draft else 'drafter = "none"\n'
    return (
        f"\n[{toml_text(name)}]\nabout = {toml_text(options.about)}\n"
        f'licence = "see where it comes from"\n\n[{table}]\n{drafter}\n'
        f"[{table}.weights]\n"
        f"as-given = {{ from = {toml_text(str(where))}, size = {toml_text(options.size)} }}\n"
    )


def format_of(where: Source) -> str:
    """Find the format of a source: by the engine for a path, by its name for a hub's."""
    if isinstance(where, LocalFiles):
        return spec(taker(where.path)).format
    formats = [engine.format for engine in specs().values()]
    return next((name for name in formats if name in str(where).lower()), formats[0])


def toml_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
