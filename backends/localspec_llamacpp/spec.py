"""The description of llama.cpp, read before it is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from localspec.backend_spec import (
    BackendSpec,
    Builder,
    Projector,
    Projectors,
    PublishedAdapter,
    PublishedHead,
)
from localspec.observed_model import ObservedModel
from localspec.trained_head import TrainedHead
from localspec_build.choice import NAMES
from localspec_llamacpp.advice import advise
from localspec_llamacpp.names import choose_projector, parts, remote_models

MAGIC = b"GGUF"
SUFFIXES = (".gguf", ".ggml")
# Bytes that hold a header: 262,144 tokens and 514,906 merges are 15 million, and no known one has
# more.
HEADERS = (16 << 20, 64 << 20)


def claims(path: Path) -> bool:
    """Claim a file by its name or its magic; a pipe is not opened, which could block for ever."""
    if path.suffix.lower() in SUFFIXES:
        return not path.is_dir()
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def build(kind: str, from_source: bool) -> str:
    from localspec_llamacpp import building  # only here: it takes time to import

    return building.build(kind, from_source)


def thin(path: Path, layers: Sequence[int], out: Path) -> None:
    from localspec_llamacpp.thinning import thin as write  # only here: it takes time to import

    write(path, layers, out)


def observe(path: Path, layers: Sequence[int], most: int) -> ObservedModel:
    from localspec_llamacpp.observing import observe as load  # only here, as above

    return load(path, layers, most)


def write_head(head: TrainedHead, target: Path, out: Path) -> None:
    from localspec_llamacpp.head_writing import write_head as write  # only here, as above

    write(head, target, out)


def convert(head: PublishedHead, out: Path) -> None:
    from localspec_llamacpp.converting import convert as write  # only here: it takes time to import

    write(head, out)


def convert_adapter(adapter: PublishedAdapter, out: Path) -> None:
    from localspec_llamacpp.converting import convert_adapter as write  # only here, as above

    write(adapter, out)


def describe_adapter(path: Path) -> Mapping[str, str]:
    from localspec_llamacpp.headers.adapter import describe  # only here, as above

    return describe(path)


def find_projector(path: Path) -> Projector | str:
    from localspec_llamacpp.headers.projector import find_projector as find  # as above

    return find(path)


def describe_projector(path: Path) -> Projector:
    from localspec_llamacpp.headers.projector import describe  # only here, as above

    return describe(path)


def without_pictures() -> str:
    """Say what the installed llama.cpp lacks for projectors."""
    from localspec_llamacpp.bindings import library  # only here, as above

    return "" if library.has_pictures() else "llama.cpp was built without mtmd"


SPEC = BackendSpec(
    module="localspec_llamacpp.backend",
    format="gguf",
    kind="a GGUF file",
    install="pip install llama-cpp-python",
    claims=claims,
    models=remote_models,
    files=parts,
    header_bytes=HEADERS,
    packages=("llama-cpp-python",),
    workers="localspec_llamacpp.workers",
    vectors="localspec_llamacpp.vectors",
    advise=advise,
    builder=Builder(NAMES, build),
    tells_progress=True,
    scales_adapters=True,
    projectors=Projectors(find_projector, describe_projector, choose_projector, without_pictures),
    describe_adapter=describe_adapter,
    thin=thin,
    observe=observe,
    write_head=write_head,
    convert=convert,
    convert_adapter=convert_adapter,
)
