"""The command `localspec embed`: the vectors of texts in files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

import click

from localspec.base.errors import UsageError
from localspec.console.options.declare import (
    COUNT,
    READABLE,
    WRITABLE,
    flag,
    option,
    options,
    read,
    set_names,
)
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.sections import SectionedCommand
from localspec.console.progress.progress_bar import TEXTS, Progress

if TYPE_CHECKING:
    from localspec.base.tokens import Vectors

AT_ONCE = 512  # texts between two looks at the progress
NPY, LINES = ".npy", ".jsonl"
DIGITS = 8  # after the point; more say nothing of a number of 32 bits
FOR_TEXT = (
    "draft",
    "adapter",
    "bit_exact",
    "kv_type",
    "cpu_moe",
    "batch",
    "micro_batch",
)  # so do their options begin


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    out: Path | None = option(
        WRITABLE,
        "File for the vectors: .npy, an array of 32 bits with a row for each text, or .jsonl.",
        "FILE",
        otherwise="JSON lines on standard output",
    )
    whole: bool = flag("Each file as one text, rather than each of its lines.")
    kind: str = option(
        click.Choice(["text", "query", "document"]),
        "What the texts are, where a model of the catalogue reads queries and documents otherwise.",
        default="text",
    )
    dimensions: int | None = option(
        COUNT, "Numbers to keep of each vector, the first ones.", otherwise="all"
    )
    truncate: bool = flag("Cut texts that are too long, in place of an error.")


class Source(NamedTuple):
    """The place of a text."""

    file: str
    line: int | None  # None: the whole file
    text: str


class Out(Protocol):
    def write(self, sources: Sequence[Source], vectors: Vectors) -> None: ...


@click.command("embed", cls=SectionedCommand, params=options(EmbedOptions, LoadingOptions))
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=READABLE)
@click.pass_context
def embed(context: click.Context, model: str, files: Sequence[Path]) -> None:
    """Turn the lines of files into vectors.

    Each line is a text; empty ones are left out. Vectors have length one.
    """
    from localspec.console.questions.interactive_load import load_vectors_and_report, locate_or_pull

    if wrong := sorted(name for name in set_names(context) if name.startswith(FOR_TEXT)):
        flag_name = f"--{wrong[0].replace('_', '-')}"
        raise UsageError(f"{flag_name} is for models that continue text: omit it")
    chosen = read(context, EmbedOptions)
    if chosen.out and chosen.out.suffix not in (NPY, LINES):
        raise UsageError(f"--out {chosen.out} must end in {NPY} or {LINES}")
    sources = [source for file in files for source in texts_in(file, whole=chosen.whole)]
    if not sources:
        raise UsageError(f"there is no text in {', '.join(map(str, files))}")
    loading = make_loading(read(context, LoadingOptions))
    located = locate_or_pull(model, loading)
    with ExitStack() as closing:
        runtime = closing.enter_context(load_vectors_and_report(model, located, loading))
        width = chosen.dimensions or runtime.dimensions
        out = closing.enter_context(open_output(chosen.out, len(sources), width))
        count = closing.enter_context(Progress(len(sources), unit=TEXTS))
        for at in range(0, len(sources), AT_ONCE):
            some = sources[at : at + AT_ONCE]
            vectors = runtime.embed(
                [source.text for source in some],
                kind=chosen.kind,
                dimensions=chosen.dimensions,
                cut=chosen.truncate,
            )
            out.write(some, vectors)
            count(len(some))


def texts_in(file: Path, *, whole: bool) -> Iterator[Source]:
    try:
        content = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read as text: {error}") from error
    if whole:
        yield from [Source(str(file), None, content)] if content.strip() else []
        return
    for at, line in enumerate(content.splitlines(), 1):
        if line.strip():
            yield Source(str(file), at, line)


@contextmanager
def open_output(path: Path | None, count: int, width: int) -> Iterator[Out]:
    """Open the output; a file gets its name when all vectors are in it."""
    if path is None:
        yield JsonLines(sys.stdout)
        return
    part = path.with_name(f".{path.name}.part")
    try:
        if path.suffix == NPY:
            yield Array(part, count, width)
        else:
            with part.open("w", encoding="utf-8", newline="\n") as file:
                yield JsonLines(file)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


class JsonLines:
    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, sources: Sequence[Source], vectors: Vectors) -> None:
        for source, vector in zip(sources, vectors, strict=True):
            location = {"file": source.file} | ({"line": source.line} if source.line else {})
            numbers = [round(number, DIGITS) for number in vector.tolist()]
            self._file.write(json.dumps({**location, "vector": numbers}) + "\n")


class Array:
    """An array in a file, which is never whole in memory."""

    def __init__(self, path: Path, count: int, width: int) -> None:
        from numpy.lib.format import open_memmap  # only here: numpy takes time to import

        self._rows = open_memmap(path, "w+", dtype="<f4", shape=(count, width))
        self._written = 0

    def write(self, _: Sequence[Source], vectors: Vectors) -> None:
        end = self._written + len(vectors)
        self._rows[self._written : end] = vectors
        self._written = end
        self._rows.flush()
