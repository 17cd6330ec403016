"""The command `localspec add`: a model of the user's own for the catalogue."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import click
from filelock import FileLock

from localspec.base.errors import UsageError
from localspec.base.system.atomic_write import write
from localspec.console.options.declare import TEXT, option, options, read, required
from localspec.running.models import catalogue, catalogue_file
from localspec.running.models.engines import all_engines, taker
from localspec.running.models.sources import LocalFiles, Source, source


@dataclass(frozen=True, slots=True)
class AddOptions:
    target: str = required(
        TEXT, "Source of the weights: hf:ORG/REPOSITORY[:FILE], or a path.", "SOURCE"
    )
    draft: str = option(TEXT, "Draft model.", "NAME|SOURCE", default="")
    about: str = option(TEXT, "Description in a sentence.", default="a model of one's own")
    size: str = option(
        TEXT,
        "Size of the weights, e.g. 5.0GB.",
        "SIZE",
        default="",
        otherwise="that of the file, else 1GB",
    )
    format: str = option(
        TEXT, "Format of the files, e.g. gguf.", default="", otherwise="by the name of the target"
    )


@click.command(params=options(AddOptions))
@click.argument("name")
@click.pass_context
def add(context: click.Context, name: str) -> None:
    """Add a model to your own catalogue, which is read beside the built-in one."""
    options = read(context, AddOptions)
    if not catalogue_file.NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: it must match {catalogue_file.NAME.pattern}")
    path = catalogue.own()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # or one of two at once would be lost
        append(path, name, toml_entry(name, options))
    click.echo(f"{name} is in {path}")


def append(path: Path, name: str, entry: str) -> None:
    """Add an entry to a catalogue; refuse one by which the catalogue could not be read."""
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    if name in (catalogue_file.parse(path, before) if before else {}):
        raise UsageError(f"{path} has {name} already: edit it there")
    catalogue.with_builtin(catalogue_file.parse(path, before + entry))
    write(path, before + entry)


def toml_entry(name: str, options: AddOptions) -> str:
    origin, draft = existing(source(options.target)), toml_text(draft_source(options.draft))
    table = f"{toml_text(name)}.{toml_text(format_of(origin, options.format))}"
    size = toml_text(options.size or size_of(origin))
    drafter = f'drafter = "model"\ndraft = {draft}\n' if options.draft else 'drafter = "none"\n'
    return (
        f"\n[{toml_text(name)}]\nabout = {toml_text(options.about)}\n"
        f'licence = "see where it comes from"\n\n[{table}]\n{drafter}\n'
        f"[{table}.weights]\n"
        f"as-given = {{ from = {toml_text(str(origin))}, size = {size} }}\n"
    )


def format_of(origin: Source, named: str) -> str:
    """Find the format of a source: by the engine for a path, else the named one, or by its name."""
    if isinstance(origin, LocalFiles):
        actual = taker(origin.path).spec.format
        if named not in ("", actual):
            raise UsageError(f"{origin.path} is {actual}, not {named}: omit --format")
        return actual
    if named:
        return named
    formats = [engine.spec.format for engine in all_engines()]
    return next((name for name in formats if name in str(origin).lower()), formats[0])


def existing(origin: Source) -> Source:
    """Return a source; refuse a path where nothing is."""
    if isinstance(origin, LocalFiles) and not origin.path.exists():
        raise UsageError(f"there is no file {origin.path}")
    return origin


def draft_source(text: str) -> str:
    """Write a draft model as the catalogue has it: a name, or a source with its whole path."""
    is_name = not text or text.partition(":")[0] in catalogue.names()
    return text if is_name else str(existing(source(text)))


def size_of(origin: Source) -> str:
    """Write the size of a source, or a guess where it is not here."""
    if not isinstance(origin, LocalFiles):
        return "1GB"
    files = taker(origin.path).spec.files(origin.path)
    return f"{sum(file.stat().st_size for file in files) / 1e6:.3f}MB"


def toml_text(text: str) -> str:
    """Write a text as TOML has it, which escapes as JSON does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        fault = f"{text!r} is not UTF-8, which {catalogue.own()} needs: rename it"
        raise UsageError(fault) from None
    return json.dumps(text, ensure_ascii=False)
