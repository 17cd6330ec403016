"""Files beside a model: drafting heads, adapters, projectors, and what an engine does with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from localspec.base.model_files import RemoteModel
from localspec.interfaces.media import Kind
from localspec.interfaces.observed_model import ObservedModel
from localspec.interfaces.trained_head import TrainedHead


class Published(NamedTuple):
    """A drafting head, or a LoRA adapter, as it was published: a folder of weights and a config."""

    folder: Path
    # The folder of its model; None: a head is among the weights of `folder`, and for an adapter the
    # model that it names is fetched.
    model: Path | None
    kind: str = "auto"  # of the weights to write, in the converter's words
    python: str = ""  # that has what the converter imports; one is set up if empty


class HeadTools(NamedTuple):
    """Makes drafters for a model; each function writes to a path where there is nothing yet."""

    # Loads a model to train a head for it: the inputs of the layers of these numbers are observed,
    # in texts of at most so many tokens.
    observe: Callable[[Path, Sequence[int], int], ObservedModel]
    write: Callable[[TrainedHead, Path, Path], None]  # a trained head for the model at a path
    convert: Callable[[Published, Path], None] | None = None
    # Writes a model of these layers of another.
    thin: Callable[[Path, Sequence[int], Path], None] | None = None


class AdapterTools(NamedTuple):
    """Describes and converts adapters, whose scales requests may choose."""

    # The facts of an adapter at a path that the engine claims, by name; none of another file.
    describe: Callable[[Path], Mapping[str, str]]
    # Writes to a path where there is nothing yet; None where adapters are taken as published.
    convert: Callable[[Published, Path], None] | None = None


class Projector(NamedTuple):
    """A file that turns pictures or sounds into the embeddings of a model."""

    path: Path
    kinds: frozenset[Kind]  # of media that it takes


class Projectors(NamedTuple):
    """Finds the projectors of an engine, which lie in files of their own."""

    # The one beside a model at a path; else why none is taken, "" where none lies there.
    find: Callable[[Path], Projector | str]
    describe: Callable[[Path], Projector]  # `UsageError` where a file is none
    # The one to download of a repository's projectors; None where they are not of one model.
    choose: Callable[[Sequence[RemoteModel]], RemoteModel | None]
    missing: Callable[[], str]  # what the installed library lacks for them, in words; "": nothing
