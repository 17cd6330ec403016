"""Projectors in files of their own, as an engine finds and describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from localspec.base.model_files import RemoteModel
from localspec.interfaces.media import Kind


class Projector(NamedTuple):
    """A file that turns pictures or sounds into the embeddings of a model."""

    path: Path
    kinds: frozenset[Kind]  # of media that it takes
    weight_bytes: int


class Projectors(NamedTuple):
    """The way to the projectors of an engine, which lie in files of their own."""

    # The one beside a model at a path; else why none is taken, "" where none lies there.
    find: Callable[[Path], Projector | str]
    describe: Callable[[Path], Projector]  # `UsageError` where a file is none
    # The one to download of a repository's projectors; None where they are not of one model.
    choose: Callable[[Sequence[RemoteModel]], RemoteModel | None]
    missing: Callable[[], str]  # what the installed library lacks for them, in words; "": nothing
