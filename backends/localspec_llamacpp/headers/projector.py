"""Projectors, which turn pictures or sounds into embeddings: their headers, and which fits a model.

Of those that lie beside a model one is taken where no other can be meant: an only one beside an
only model, else the one of the model's width whose header or file has the model's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from localspec.base.errors import ModelFileError, UsageError
from localspec.interfaces.file_tools import Projector
from localspec.interfaces.media import Kind
from localspec_llamacpp.headers.footprint import PROJECTOR, quantisation
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.metadata import Header
from localspec_llamacpp.names import MMPROJ, PREFERRED, bare_name, remote_models

ENCODERS: tuple[tuple[str, Kind], ...] = (("vision", "image"), ("audio", "audio"))
BASENAME = "general.basename"


def describe(path: Path) -> Projector:
    """Describe a projector by its header; `UsageError` where a file is none."""
    header = read(path)
    architecture = header.text("general.architecture")
    if architecture != PROJECTOR:
        raise UsageError(
            f"{path.name} is no projector: its architecture is {architecture}; give the file with "
            f"{MMPROJ} in its name that was published with the model"
        )
    kinds = [kind for part, kind in ENCODERS if header.number(f"clip.has_{part}_encoder")]
    return Projector(path, frozenset(kinds))


def find_projector(path: Path) -> Projector | str:
    """Find the projector for a model beside it; else return why none is taken, "" if none fits."""
    beside = list(projectors(path.parent))
    if not beside:
        return ""
    several_models = len(models_in(path.parent)) > 1
    if several_models or len({identity(header) for header in beside}) > 1:
        model = read(path)
        fitting = [header for header in beside if are_of_one_width(model, header)]
        related = [header for header in fitting if are_of_one_name(model, header)]
        beside = related if related or several_models else fitting
    if len({identity(header) for header in beside}) > 1:
        return f"{names_of(beside)} suit it: give one with --mmproj"
    return describe(min(beside, key=rank).path) if beside else ""


def models_in(folder: Path) -> set[str]:
    """Name the models in a folder; one in several types is one."""
    names = [path.name for path in folder.iterdir()]
    return {bare_name(model.files[0]) for model in remote_models(names) if model.role == "model"}


def projectors(folder: Path) -> Iterator[Header]:
    """Read the headers of the projectors in a folder; what is broken is none."""
    for path in sorted(folder.glob(f"*{MMPROJ}*.gguf")):
        with suppress(ModelFileError):
            header = read(path)
            if header.text("general.architecture") == PROJECTOR:
                yield header


def are_of_one_width(model: Header, projector: Header) -> bool:
    architecture = model.text("general.architecture")
    width = model.number(f"{architecture}.embedding_length")
    return width in [projector.number(f"clip.{part}.projection_dim") for part, _ in ENCODERS]


def are_of_one_name(model: Header, projector: Header) -> bool:
    """Return whether a header's or a file's name says that a projector is for a model."""
    names = {(header.text(BASENAME) or "").casefold() for header in (model, projector)}
    named, name = bare_name(projector.path.name), bare_name(model.path.name)
    by_file = bool(named) and f"{name}-".startswith(f"{named}-")
    return by_file or (len(names) == 1 and names != {""})


def identity(header: Header) -> object:
    """Return what is the same in files that hold one projector in several types."""
    shapes = frozenset((tensor.name, tensor.shape) for tensor in header.tensors)
    return header.text("general.name"), header.text(BASENAME), shapes


def rank(header: Header) -> int:
    kind = quantisation(header)
    return PREFERRED.index(kind) if kind in PREFERRED else len(PREFERRED)


def names_of(headers: Sequence[Header]) -> str:
    return " and ".join(header.path.name for header in headers)
